"""S3 Inventory reports as listings."""
