"""Orphan scans by functions and jobs."""
