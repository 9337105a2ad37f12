"""Tags: create, rename, delete, expire, automatically or manually."""
