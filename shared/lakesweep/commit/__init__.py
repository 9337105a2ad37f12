"""Commit a snapshot: prepare it on the newest one, publish it under the lease, and look whether it stays."""
