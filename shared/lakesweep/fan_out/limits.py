"""How large the pieces of a scan are, so that each fits into a worker of 512 MiB and two minutes."""

FIRST_PAGES = 8
"""Pages that the first task of a place lists, if little is known of it: what it has seen says where to split."""
LIST_PAGES = 256
"""Pages that any other task lists: 256 000 objects, some twenty seconds."""
FILL = 0.6
"""Of these a task is given that many at first, since nobody knows how even folders are."""
MOST_FOLDERS = 10_000
MOST_LOOKS = 16
"""Folders that are looked into for their folders, to cut a table between them."""
WAYS = 4
"""Pieces into which a task splits what it leaves. More would find nothing more often."""
DECODE_ENTRIES = 250_000
"""Manifest entries that one task decodes: some ten seconds, and 8 MB of names."""
DECODE_MANIFESTS = 2_000
"""Manifests of one task, however small."""
MATCH_ROWS = 600_000
"""Names and objects that one task holds against each other: some 200 MB."""
MOST_GAP_ROWS = 50_000
"""Rows that a second match reads in vain, where another task would cost more."""
HERE_ENTRIES = 30_000
"""Manifest entries that a fold decodes itself, since tasks would take longer."""
MORE_ROUNDS = 3
"""How often a fold has manifests decoded by tasks that appeared meanwhile; then it does so itself."""
SHORTEST_DELAY_S = 15
LONGEST_DELAY_S = 300
"""How long a fold waits for the next look."""
SILENCE_MS = 180_000
"""Longer than a worker may take. Tasks of which nothing is heard for so long are sent again."""
