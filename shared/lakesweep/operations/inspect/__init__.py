"""Answers that only read: check, show, files, explain."""
