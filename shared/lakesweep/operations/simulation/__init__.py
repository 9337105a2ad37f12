"""What other retention policies would keep, over the real history of a table. This changes nothing."""
