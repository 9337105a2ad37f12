"""Large plans, executed by many workers."""
