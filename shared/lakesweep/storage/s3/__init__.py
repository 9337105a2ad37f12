"""The S3 store."""
