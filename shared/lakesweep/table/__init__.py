"""Loading: a table's roots and the files they refer to, as facts. Decides nothing."""
