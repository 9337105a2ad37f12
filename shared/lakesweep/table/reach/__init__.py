"""What roots need: which files they refer to, and which of these exist."""
