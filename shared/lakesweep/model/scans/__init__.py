"""Values of orphan scans: arguments, facts for the choice of a backend, prices."""
