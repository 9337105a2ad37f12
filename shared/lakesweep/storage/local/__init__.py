"""The store of local folders."""
