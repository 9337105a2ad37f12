"""Deletion vectors: which rows of a data file are deleted, as bytes of an index file and as values."""
