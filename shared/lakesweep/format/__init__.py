"""Convert bytes to values and back: the documents and metadata files of a table. No I/O, no clock."""
