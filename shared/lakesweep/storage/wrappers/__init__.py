"""Stores around another store."""
