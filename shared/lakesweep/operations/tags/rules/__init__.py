"""Which tags are due, which are over: pure rules."""
