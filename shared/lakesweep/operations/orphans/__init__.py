"""Orphan files: find and delete them."""
