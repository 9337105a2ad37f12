"""Carry out a stored plan of orphan files on Spark: `spark-submit jobs/execute_plan.py TABLE PLAN_ID --control ...`.

Everything `lakesweep execute` takes, this takes, and answers with the same document and exit code.
"""

import sys

from lakesweep.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["execute", *sys.argv[1:], "--engine", "spark"]))
