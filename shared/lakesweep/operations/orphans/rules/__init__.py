"""What an object is, and where a scan runs: pure rules."""
