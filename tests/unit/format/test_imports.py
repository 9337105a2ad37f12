"""What the readers may load: a worker starts cold, and carries no pyarrow."""

import subprocess
import sys

HEAVY = {"pyarrow", "boto3", "botocore", "fastavro", "pyspark", "numpy"}


def test_readers_load_nothing_heavy() -> None:
    code = (
        "import sys, lakesweep.table.paths, lakesweep.format.snapshot, lakesweep.format.tag, lakesweep.format.manifest,"
        " lakesweep.format.documents;"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert answer.stdout == "[]\n"
