"""Write data files as Paimon does."""
