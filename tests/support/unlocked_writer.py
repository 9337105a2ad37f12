"""A process that appends with pypaimon, which tests whether a snapshot exists and then writes it.

Several of them race. It ends with its input.
"""

import subprocess
import sys
import threading
from typing import Any

import pyarrow

from tests.conftest import REPOSITORY
from tests.support.s3_server import S3Server

COLUMNS = pyarrow.schema([("id", pyarrow.int64()), ("dt", pyarrow.string())])
TABLE = "db.t"


class UnlockedWriter:
    """One such process."""

    def __init__(self, server: S3Server, bucket: str, name: str, endpoint: str) -> None:
        """Start it; it appends to the partition of its name, and reaches the server at an endpoint."""
        words = [endpoint, server.region, server.access_key, server.secret_key, bucket, name]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.unlocked_writer", *words],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait_for_start(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def begin(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Let it finish its commit, and return how many it made."""
        out, _ = self._process.communicate()
        return int(out.strip())

    def close(self) -> None:
        """End it at once, if it has not ended."""
        with self._process:
            self._process.kill()


def opened(endpoint: str, region: str, access_key: str, secret_key: str, bucket: str) -> Any:
    """Return the catalog."""
    from pypaimon import CatalogFactory

    return CatalogFactory.create(
        {
            "warehouse": f"s3://{bucket}/warehouse",
            "s3.endpoint": endpoint,
            "s3.region": region,
            "s3.access-key": access_key,
            "s3.secret-key": secret_key,
            "s3.path-style-access": "true",
        }
    )


def append(table: Any, partition: str, number: int = 0) -> None:
    """Commit one row."""
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pyarrow.table([pyarrow.array([number]), pyarrow.array([partition])], schema=COLUMNS))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def main(endpoint: str, region: str, access_key: str, secret_key: str, bucket: str, name: str) -> None:
    """Append until the input ends. A commit that others always came before is no error here."""
    table = opened(endpoint, region, access_key, secret_key, bucket).get_table(TABLE)
    over = threading.Event()
    print("ready", flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    commits = 0
    while not over.is_set():
        try:
            append(table, name, commits)
            commits += 1
        except RuntimeError:
            continue
    print(commits, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
