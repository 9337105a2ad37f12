"""What an erasure knows of a table: which files had the rows, and where their values can still be."""
