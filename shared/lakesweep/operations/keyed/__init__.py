"""Compaction of tables with a primary key: level 0 is merged upwards, and old rows are marked."""
