"""How large the pieces of a scan are, so that each fits into a worker of 512 MiB and two minutes."""

FIRST_PAGES = 8
"""Pages that the first task of a place lists if its size is unknown. The keys it sees show where to split the rest."""
LIST_PAGES = 256
"""Pages that any other task lists: 256 000 objects, some twenty seconds."""
FILL = 0.6
"""Share of these pages that a task is given at first, since folders may be of uneven size."""
MOST_FOLDERS = 10_000
MOST_LOOKS = 16
"""Most folders whose subfolders Lakesweep lists to find where to cut a table."""
WAYS = 4
"""Pieces into which a task splits the rest of its range. With more pieces, more tasks would find nothing."""
DECODE_ENTRIES = 250_000
"""Manifest entries that one task decodes. They take some ten seconds and make 8 MB of names."""
DECODE_MANIFESTS = 2_000
"""Most manifests of one task, however small they are."""
MATCH_ROWS = 600_000
"""Names and objects that one task compares. They take some 200 MB of memory."""
MOST_GAP_ROWS = 50_000
"""Unneeded rows that a task of the second match may read where avoiding them would cost another task."""
HERE_ENTRIES = 30_000
"""Manifest entries that a scan step decodes itself, since sending tasks would take longer."""
MORE_ROUNDS = 3
"""How often a scan step leaves manifests that appeared meanwhile to tasks. After that it decodes them itself."""
SHORTEST_DELAY_S = 15
LONGEST_DELAY_S = 300
"""Longest delay before the next scan step."""
