"""Read a version of a table as a DataFrame."""
