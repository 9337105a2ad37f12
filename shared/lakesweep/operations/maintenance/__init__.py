"""The pass after a commit, and what makes it due."""
