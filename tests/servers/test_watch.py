"""What the watcher of a table says while writers write."""

import json
import shutil
from pathlib import Path

from tests.servers.watch import Watch
from tests.support.unlocked_writer import append
from tests.support.versitygw import Versitygw


def test_a_snapshot_that_is_just_replaced_is_still_there(own_versitygw: Versitygw, tmp_path: Path) -> None:
    """The server first copies an object to its older versions, and then puts another one in its place."""
    watch, client = Watch(own_versitygw.server), own_versitygw.server.client
    append(watch.table, "first")
    key = "warehouse/db.db/t/snapshot/snapshot-1"
    document = json.loads(watch.lake.store.read("snapshot/snapshot-1").data)
    for user in ("java-1", "w-1"):
        body = json.dumps({**document, "commitUser": user}).encode()
        answer = client.put_object(Bucket=watch.bucket, Key=key, Body=body)
    before = watch.versions()
    assert watch.pairs() == {"pypaimon by w": 1, "java by w": 1}

    (older,) = {path.parent for path in tmp_path.glob("versitygw/versions/**/*") if path.name in before}
    shutil.copy2(tmp_path / "versitygw" / "objects" / watch.bucket / key, older / answer["VersionId"])
    listed = client.list_object_versions(Bucket=watch.bucket, Prefix=key)["Versions"]
    assert len(listed) == len(before) + 1, "the server lists it twice"
    assert watch.versions() == before
    assert watch.pairs() == {"pypaimon by w": 1, "java by w": 1}
