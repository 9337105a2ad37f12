"""Commands on branches."""
