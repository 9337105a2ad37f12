"""The Spark side of `compact`: tasks rewrite data files, the driver commits."""
