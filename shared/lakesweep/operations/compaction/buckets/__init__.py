"""Compaction of tables with a primary key, bucket by bucket."""
