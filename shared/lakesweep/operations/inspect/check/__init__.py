"""What is wrong with a table, and what mends it."""
