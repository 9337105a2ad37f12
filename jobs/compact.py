"""Compact a table: `spark-submit jobs/compact.py TABLE --control ... --execute`.

Everything `lakesweep compact` takes, this takes, and answers with the same document and exit code. One exit code
differs: an endpoint that does not answer is 1, which is tried again.
"""

import sys

from lakesweep.cli.job import main_of_job

if __name__ == "__main__":
    sys.exit(main_of_job(["compact", *sys.argv[1:], "--engine", "spark"]))
