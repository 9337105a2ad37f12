"""Find a table's orphan files on Spark: `spark-submit jobs/remove_orphan_files.py TABLE --control LOCATION ...`.

Everything `lakesweep remove-orphan-files` takes, this takes, and answers with the same document and
exit code. One exit code differs: an endpoint that does not answer is 1, which is tried again.
"""

import sys

from lakesweep.cli.job import main_of_job

if __name__ == "__main__":
    sys.exit(main_of_job(["remove-orphan-files", *sys.argv[1:], "--engine", "spark"]))
