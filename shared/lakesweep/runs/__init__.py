"""What every operation begins and ends with: the table, its view, the run."""
