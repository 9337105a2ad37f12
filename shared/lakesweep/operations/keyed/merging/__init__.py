"""Merge sorted runs of one bucket in a worker."""
