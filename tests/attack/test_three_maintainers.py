"""Three maintainers at once: processes of the command line and a writer on one table, in a loop of seconds.

One keeps the table small, one removes orphan files, one makes tags and rolls back, deletes tags and undoes. Whoever is
refused by another's lease tries again. Every root that is left reads, at the end and on the way.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.attack.metadata import THOROUGH
from tests.support.reader import UnreadableRootError, read_all
from tests.support.s3_server import moto_endpoint, moto_store, versioned_bucket
from tests.support.table_builder import TableBuilder

SECONDS = 60.0 if THOROUGH else 3.0
ROLES = ("maintain", "orphans", "tags")
SETTINGS = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "4", "snapshot.time-retained": "1 h"}

_LOOP = """
import json, random, sys, time
from lakesweep.cli.main import main
role, seconds, seed, table, *more = sys.argv[1:]
chance, codes = random.Random(seed), {}
ends = time.monotonic() + float(seconds)
number = 0
while time.monotonic() < ends or not number:
    number += 1
    if role == "maintain":
        line = ["maintain", table, "--execute"]
    elif role == "orphans":
        line = ["remove-orphan-files", table, "--execute"]
    else:
        line = chance.choice((
            ["create-tag", table, f"t{number}", "--execute"],
            ["expire-tags", table, "--older-than", "2100-01-01", "--execute"],
            ["delete-tag", table, f"t{number - 1}", f"t{number - 2}", "--execute"],
            ["runs", table],
        ))
    code = main([*line, *more])
    codes[code] = codes.get(code, 0) + 1
    if code not in (0, 2, 3, 4, 5):
        print("CODE", code, line, file=sys.stderr)
print("CODES", json.dumps(codes))
"""


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, list[str]]]:
    """A store, and the arguments by which processes find its control location."""
    if request.param == "local":
        yield LocalStore(str(tmp_path / "t")), ["--control", str(tmp_path / "control")]
    else:
        bucket = versioned_bucket()
        more = ["--control", f"s3://{bucket}/control", "--endpoint-url", moto_endpoint(), "--region", "us-east-1"]
        yield moto_store("t", bucket=bucket), more


def test_every_root_reads_after_them(place: tuple[Store, list[str]], tmp_path: Path) -> None:
    store, more = place
    table = TableBuilder(store, options=SETTINGS)
    table.commit("+F1")
    table.tag("keep")
    # Nobody reads while they run, and a full pipe would stop them: so they write to files.
    said = [tmp_path / f"said-{role}" for role in ROLES]
    processes = []
    for seed, (role, file) in enumerate(zip(ROLES, said, strict=True)):
        command = [sys.executable, "-c", _LOOP, role, str(SECONDS), str(seed), store.location, *more]
        with file.open("w") as output:
            processes.append(subprocess.Popen(command, stdout=output, stderr=output))
    chance = random.Random(1)
    number = 1
    while any(process.poll() is None for process in processes):
        number += 1
        table.commit(f"+F{number}", f"-F{number - 1}")
        table.hint("LATEST", number)
        time.sleep(chance.uniform(0.0, 0.2))
    for process, file in zip(processes, said, strict=True):
        text = file.read_text()
        assert process.returncode == 0, text[-2000:]
        assert "CODE " not in text and "this is a bug" not in text, text[-2000:]
    assert number > 5
    try:
        found = read_all(store)
    except UnreadableRootError as error:
        pytest.fail(f"{error}: {[file.read_text()[-2000:] for file in said]}")
    assert "tag/tag-keep" in found or "expire-tags" in said[2].read_text()
    assert f"snapshot/snapshot-{number}" in found
