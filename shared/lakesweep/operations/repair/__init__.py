"""Repairs: leave out of a table what certainly does not exist any more, and correct hints."""
