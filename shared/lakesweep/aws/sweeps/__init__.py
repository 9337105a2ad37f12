"""Sweeps over all tables."""
