"""Measurements beside the Java engine. Each has one command; `benchmarks/README.md` says which and what it measures."""
