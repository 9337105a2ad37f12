"""Which file a path is, and what Lakesweep may delete there."""
