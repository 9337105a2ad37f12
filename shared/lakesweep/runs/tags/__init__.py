"""Tags as every run meets them: documents, sources, ends."""
