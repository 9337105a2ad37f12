"""Plans that delete documents and files."""
