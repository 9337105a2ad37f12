"""Arguments and options, read and checked."""
