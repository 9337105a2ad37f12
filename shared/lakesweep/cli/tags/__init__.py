"""Commands on tags."""
