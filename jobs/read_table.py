"""Write the rows of a version into a folder: `spark-submit jobs/read_table.py TABLE --to FOLDER --control ...`.

Everything `lakesweep read` takes, this takes, and answers with the same document and exit code. One exit code differs:
an endpoint that does not answer is 1, which is tried again.
"""

import sys

from lakesweep.cli.job import main_of_job

if __name__ == "__main__":
    sys.exit(main_of_job(["read", *sys.argv[1:], "--engine", "spark"]))
