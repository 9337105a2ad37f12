"""Erase rows from every version of a table."""
