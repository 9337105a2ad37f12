"""The command on orphan files."""
