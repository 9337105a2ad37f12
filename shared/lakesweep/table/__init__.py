"""Loading: a table's roots and the files that they refer to, as facts. This package decides nothing."""
