"""Expiry of snapshots, changelogs and consumers."""
