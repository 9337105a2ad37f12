"""Apply a stored plan: recheck the roots, delete a batch, record it. The only decision made here is to stop."""
