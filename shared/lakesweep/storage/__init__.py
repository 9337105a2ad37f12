"""Where objects are stored: the `Store` protocol, and its memory, local and S3 implementations."""
