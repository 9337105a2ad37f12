"""What every operation that commits begins and ends with: the catalog, the base, the commits, the report."""
