"""Branch rewrites: rollback, fast-forward, new and deleted branches."""
