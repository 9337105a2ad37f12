"""`lakesweep undo` on a versioned bucket, from the command line."""

import pytest

from lakesweep.storage.store import delete_all
from tests.e2e.undo_lake import PREFIX, Lake, make
from tests.support.reader import all_roots, read_all
from tests.support.s3_server import (
    fresh_bucket,
    moto_client,
    versioned_bucket,
)
from tests.unit.cli.command_line import KEYS


@pytest.fixture
def lake() -> Lake:
    return make(versioned_bucket())


def test_an_expiry_is_undone(lake: Lake) -> None:
    """Byte for byte, and every root reads; the bucket keeps no trace but the markers of what is gone for good."""
    before = lake.bodies()
    run_id = lake.expire()
    gone = set(before) - set(lake.bodies())
    assert len(gone) > 30
    row = lake.run()
    assert (row["undoable"], row["undoable_reason"], row["undoable_until_ms"]) == (True, None, None)

    dry = lake.call("undo", run_id, "--json")
    assert (dry.exit_code, dry.document["status"], tuple(dry.document)) == (0, "planned", KEYS)
    assert {created["path"] for created in dry.document["created"]} == gone | {"snapshot/EARLIEST"}
    assert set(lake.bodies()) & gone == set()
    text = lake.call("undo", run_id)
    assert text.exit_code == 0
    assert "restore" in text.printed
    assert "next       the same command with --execute" in text.printed

    done = lake.call("undo", run_id, "--execute", "--json")
    assert (done.exit_code, done.document["status"]) == (0, "done"), done.messages
    assert done.document["outcome"]["restored"] == len(gone)
    assert lake.bodies() == before
    assert len(read_all(lake.store)) == len(all_roots(lake.store)) == 9
    markers = moto_client().list_object_versions(Bucket=lake.bucket, Prefix=f"{PREFIX}/").get("DeleteMarkers", [])
    assert markers == []

    again = lake.call("undo", run_id, "--execute", "--json")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    rows = {row["run_id"]: row for row in lake.call("runs", "--json").document["runs"]}
    assert (rows[run_id]["undoable"], rows[run_id]["undoable_reason"]) == (False, "undone")
    own = rows[done.document["run_id"]]
    assert (own["operation"], own["undoable"], own["undoable_reason"]) == ("undo", False, "not_undoable")
    stored = lake.call("report", str(own["run_id"]), "--json").document["report"]
    assert stored["operation"] == "undo"
    assert "undone" in lake.call("runs").printed

    second = lake.expire()
    assert lake.call("undo", second, "--execute").exit_code == 0
    assert lake.bodies() == before


def test_without_versions() -> None:
    """Exit code 3, and nothing changes."""
    lake = make(fresh_bucket())
    run_id = lake.expire()
    before = lake.bodies()
    for words in ((), ("--execute",)):
        answer = lake.call("undo", run_id, "--json", *words)
        assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "not_versioned")
    assert lake.bodies() == before
    assert (lake.run()["undoable"], lake.run()["undoable_reason"]) == (False, "not_versioned")


def test_what_somebody_removed_for_good(lake: Lake) -> None:
    """A lifecycle rule has taken one version: nothing comes back."""
    run_id = lake.expire()
    before = lake.bodies()
    client = moto_client()
    page = client.list_object_versions(Bucket=lake.bucket, Prefix=f"{PREFIX}/dt=")
    key = next(entry["Key"] for entry in page["DeleteMarkers"])
    for entry in (*page["Versions"], *page["DeleteMarkers"]):
        if entry["Key"] == key:
            client.delete_object(Bucket=lake.bucket, Key=key, VersionId=entry["VersionId"])
    answer = lake.call("undo", run_id, "--execute", "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "marker_gone")
    assert lake.bodies() == before


def test_what_somebody_wrote_again(lake: Lake) -> None:
    run_id = lake.expire()
    key = next(str(row["path"]) for row in lake.call("report", run_id, "--json").document["report"]["actions"])
    lake.store.put(key, b"new")
    before = lake.bodies()
    answer = lake.call("undo", run_id, "--execute", "--json")
    assert answer.exit_code == 3
    assert answer.document["refusal"]["code"] == "id_reused"
    assert lake.bodies() == before


def test_a_file_that_is_missing(lake: Lake) -> None:
    """The file that all snapshots shared is gone, so snapshots would come back hollow."""
    run_id = lake.expire()
    shared = next(key for key in read_all(lake.store)["snapshot/snapshot-6"].live if "d 1" in key or "d%201" in key)
    lake.store.delete(delete_all([shared]))
    answer = lake.call("undo", run_id, "--execute", "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "would_stay_absent")


def test_until_when(lake: Lake) -> None:
    """A lifecycle rule says how long deleted objects are kept."""
    lake.expire()
    rule = {
        "ID": "old",
        "Status": "Enabled",
        "Filter": {"Prefix": "db.db/"},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
    }
    moto_client().put_bucket_lifecycle_configuration(Bucket=lake.bucket, LifecycleConfiguration={"Rules": [rule]})
    row = lake.run()
    assert row["undoable_until_ms"] == row["started_ms"] + 30 * 86_400_000
    assert "until 20" in lake.call("runs").printed


def test_no_such_run(lake: Lake) -> None:
    answer = lake.call("undo", "20260131T120000Z-00000000", "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "no_such_run")
