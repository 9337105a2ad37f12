"""ORC files, decoded in a process of their own."""
