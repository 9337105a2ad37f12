"""The Spark side of `delete_rows`: tasks find the rows and write index files, the driver commits."""
