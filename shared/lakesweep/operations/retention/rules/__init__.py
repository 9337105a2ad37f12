"""What expires: pure rules."""
