"""Compaction of append tables: small files are merged, and deleted rows taken out."""
