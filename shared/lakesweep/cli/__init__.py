"""The command line: one module a command, each a thin caller of an operation."""
