"""Which data files to compact."""
