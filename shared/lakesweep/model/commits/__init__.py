"""What operations that commit snapshots say in their reports."""
