"""Which snapshots a policy keeps at which time, and what their files sum up to."""
