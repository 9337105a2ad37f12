"""How large the pieces of a scan are, so that each fits into a worker of 512 MiB and two minutes."""

LIST_PAGES = 64
"""Pages that one task lists: 64 000 objects, some ten seconds."""
DECODE_ENTRIES = 150_000
"""Manifest entries that one task decodes: some ten seconds, and 5 MB of names."""
MATCH_ROWS = 300_000
"""Names and objects that one task holds against each other: some 200 MB."""
