"""How many of the places where something can go wrong are tried: all of them by `make faults`."""

import os

EVERY = int(os.environ.get("LAKESWEEP_FAULTS_EVERY") or 4)
"""Each so many-th, where trying takes long."""
