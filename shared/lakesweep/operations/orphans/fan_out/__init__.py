"""Scans for orphan files by many small workers that hear of each other by messages alone."""
