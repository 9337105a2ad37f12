"""`rollback --as-latest`: commit an older version on top, and withdraw nothing."""
