"""A process whose locale does not decode file names as UTF-8. Live names would not match the listed ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import DAY_MS
from tests.support.random_scene import FolderScene

# As Paimon names files of rows without a bucket, after a user called jürgen.
LIVE = f"data--u-j\u00fcrgen-s-0-w-{stable_uuid('writer')}-0.parquet"
ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


def test_a_local_table_is_refused(tmp_path: Path) -> None:
    """With ISO 8859-1 (which a machine for tests may lack), Lakesweep deleted a live file."""
    scene = FolderScene(tmp_path)
    scene.table.commit("+A", f"+{LIVE}", bucket={LIVE: -2})
    scene.age(30 * DAY_MS)
    before = scene.listed()
    assert any(key.endswith(LIVE) for key in before)
    words = ["remove-orphan-files", scene.store.location, "--control", scene.control.location, "--execute", "--json"]
    command = [sys.executable, "-m", "lakesweep", *words]
    done = subprocess.run(command, env=os.environ | ASCII, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert json.loads(done.stdout)["refusal"]["code"] == "file_name_encoding"
    assert "expected UTF-8, found ascii" in done.stderr
    assert scene.listed() == before
