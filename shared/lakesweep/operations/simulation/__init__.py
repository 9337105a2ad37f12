"""What tables would keep under other rules."""
