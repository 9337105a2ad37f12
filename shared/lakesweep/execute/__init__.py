"""Applying a stored plan: look again, delete a batch, record it. Decides nothing except to stop."""
