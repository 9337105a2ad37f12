"""Which files of a bucket are merged, how, and for which tables."""
