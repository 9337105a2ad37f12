"""Conditions on rows. `where` reads them and asks statistics, `arrow` filters rows."""
