"""Read the rows of a version of a table."""
