"""What a stored plan is compared with before it is executed or shown."""
