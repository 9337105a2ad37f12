"""`python -m lakesweep`: the command line."""

import sys

from lakesweep.cli.main import main

sys.exit(main())
