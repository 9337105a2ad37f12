"""Retention on a real S3 server leaves what it leaves in a local folder, and what is undone is back byte for byte."""

from pathlib import Path

from tests.servers.tables import snapshots, streamed_table, table_of, wide_table
from tests.support.lake import lake_in, lake_on
from tests.support.reader import read_all
from tests.support.s3_server import S3Server

COLD_REQUESTS = 420
"""As in `tests/e2e/test_requests.py`: what S3 is asked does not depend on the server."""


def test_fifty_of_a_hundred_snapshots(versitygw: S3Server) -> None:
    """A thousand data files and more than a hundred of metadata, in batches that are as large as they get."""
    lake = lake_on(versitygw, wide_table())
    before = lake.keys()
    answer = lake.call("maintain", "--execute")
    assert (answer.exit_code, answer.document["status"]) == (0, "done"), answer.messages
    by_kind = answer.document["delete"]["by_kind"]
    assert (by_kind["data"], by_kind["manifest_list"], by_kind["snapshot"]) == (1000, 100, 50)
    assert answer.document["outcome"]["deleted"] == len(before - lake.keys())
    requests = answer.document["requests"]
    assert sum(requests.values()) <= COLD_REQUESTS, requests
    assert sorted(read_all(lake.store)) == snapshots(51, 100)
    again = lake.call("maintain", "--execute")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")


def test_an_expiry_is_undone(versitygw: S3Server) -> None:
    """Twice, since the second time versions and markers of the first are in the way."""
    objects = table_of(9, 3)
    lake = lake_on(versitygw, objects, versioned=True)
    before = lake.bodies()
    for _ in range(2):
        expired = lake.call("expire-snapshots", "--execute")
        assert (expired.exit_code, expired.document["status"]) == (0, "done"), expired.messages
        gone = before.keys() - lake.keys()
        assert lake.versions().markers == dict.fromkeys(gone, 1)
        assert sorted(read_all(lake.store)) == snapshots(7, 9)
        undone = lake.call("undo", expired.document["run_id"], "--execute")
        assert (undone.exit_code, undone.document["status"]) == (0, "done"), undone.messages
        assert undone.document["outcome"]["restored"] == len(gone)
        assert lake.bodies() == before
        assert sorted(read_all(lake.store)) == snapshots(1, 9)
        assert lake.versions().markers == {}


def test_without_versions_nothing_is_undone(versitygw: S3Server) -> None:
    lake = lake_on(versitygw, table_of(6, 3))
    run_id = lake.call("expire-snapshots", "--execute").document["run_id"]
    before = lake.bodies()
    answer = lake.call("undo", run_id, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "not_versioned")
    assert lake.bodies() == before


def test_changelogs_and_a_consumer(versitygw: S3Server, tmp_path: Path) -> None:
    """The consumer holds snapshots back; when it is gone, snapshots leave their changelogs behind."""
    lakes = lake_on(versitygw, streamed_table()), lake_in(tmp_path, streamed_table())
    seen = []
    for lake in lakes:
        first = lake.call("maintain", "--execute")
        assert (first.exit_code, first.document["status"]) == (0, "done"), first.messages
        waiting = lake.bodies()
        assert lake.call("reset-consumer", "dashboard", "--execute").exit_code == 0
        second = lake.call("maintain", "--execute")
        assert (second.exit_code, second.document["status"]) == (0, "done"), second.messages
        third = lake.call("maintain", "--execute")
        assert (third.exit_code, third.document["status"]) == (0, "nothing_to_do")
        roots = sorted(read_all(lake.store))
        seen.append((waiting, lake.bodies(), roots, first.document["delete"], second.document["delete"]))
    on_server, in_folder = seen
    assert on_server == in_folder
    waiting, _, roots, *_ = on_server
    assert [path for path in waiting if path.startswith("snapshot/snapshot-")] == snapshots(9, 12)
    assert [root for root in roots if root.startswith("snapshot/")] == snapshots(11, 12)
    assert [root for root in roots if root.startswith("changelog/")] == [
        "changelog/changelog-10", "changelog/changelog-7", "changelog/changelog-8", "changelog/changelog-9",
    ]  # fmt: skip
    assert [root for root in roots if root.startswith("tag/")] == ["tag/tag-kept"]
