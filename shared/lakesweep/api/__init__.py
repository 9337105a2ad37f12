"""The Python API: `from lakesweep import Table`."""
