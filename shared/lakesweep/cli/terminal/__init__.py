"""Standard output and standard error: sentences, colours, progress."""
