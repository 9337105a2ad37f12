"""The overview of a warehouse: the bytes, costs and findings of many tables."""
