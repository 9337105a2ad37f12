"""Commands that expire."""
