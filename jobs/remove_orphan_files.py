"""Find a table's orphan files on Spark: `spark-submit jobs/remove_orphan_files.py TABLE --control LOCATION ...`.

Everything `lakesweep remove-orphan-files` takes, this takes, and answers with the same document and exit code.
"""

import sys

from lakesweep.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["remove-orphan-files", *sys.argv[1:], "--engine", "spark"]))
