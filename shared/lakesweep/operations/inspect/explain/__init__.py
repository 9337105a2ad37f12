"""Why an object is there, or where a table's bytes are."""
