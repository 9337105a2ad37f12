"""Bad input to `remove-orphan-files`: one sentence with table, path, expected and found, an exit code, nothing lost."""

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakesweep.errors import AccessDeniedError
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Body
from lakesweep.table.reach import capture
from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import S3Scene
from tests.support.reader import assert_all_readable
from tests.support.s3_server import moto_endpoint
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table

OLD_S = 1_700_000_000
ORPHAN = f"bucket-0/data-{stable_uuid('orphan')}-0.parquet"


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return write_table(tmp_path / "orders")


@pytest.fixture
def folder(tmp_path: Path, table: TableBuilder) -> Path:
    folder = tmp_path / "orders"
    plant(folder, ORPHAN)
    return folder


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def plant(folder: Path, key: str, data: bytes = b"orphan") -> Path:
    """Write a file, and let all of the table be old."""
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    age(folder)
    return path


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (OLD_S, OLD_S))


def run(folder: Path, control: Path, *argv: object) -> Answer:
    return call("remove-orphan-files", folder, "--control", control, "--json", *argv)


def refuse(folder: Path, control: Path, code: str, *argv: object, exit_code: int = 3) -> str:
    """Run with and without --execute; nothing may change. Return the sentence."""
    before = contents(folder)
    for more in ([], ["--execute"]):
        answer = run(folder, control, *argv, *more)
        assert (answer.exit_code, answer.document["status"]) == (exit_code, "refused"), answer
        assert answer.document["refusal"]["code"] == code, answer.document["refusal"]
        assert answer.sentences == [f"lakesweep: {answer.document['refusal']['message']}"]
    assert contents(folder) == before
    (sentence,) = answer.sentences
    return sentence


def execute(folder: Path, control: Path, *argv: object) -> tuple[set[str], Answer]:
    """Remove; return what went and the answer."""
    before = contents(folder)
    answer = run(folder, control, "--execute", *argv)
    return before.keys() - contents(folder).keys(), answer


def test_an_orphan_goes(folder: Path, control: Path, table: TableBuilder) -> None:
    gone, answer = execute(folder, control)
    assert (answer.exit_code, answer.document["status"]) == (0, "done")
    assert gone == {ORPHAN}
    assert_all_readable(table)


def test_zero_roots(folder: Path, control: Path) -> None:
    for path in (folder / "snapshot").iterdir():
        path.unlink()
    sentence = refuse(folder, control, "no_roots")
    assert str(folder) in sentence
    assert "expected a snapshot, tag or changelog of some branch, found none" in sentence


def test_snapshot_in_another_place(folder: Path, control: Path) -> None:
    """A folder that was moved looks as if there never was a snapshot."""
    (folder / "snapshot").rename(folder / "snapshot-old")
    assert "found none" in refuse(folder, control, "no_roots")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\0", b'{"id": 6}'])
@pytest.mark.parametrize("root", ["snapshot/snapshot-6", "tag/tag-t", "changelog/changelog-5"])
def test_a_root_that_does_not_parse(folder: Path, control: Path, root: str, body: bytes) -> None:
    plant(folder, root, body)
    sentence = refuse(folder, control, "unreadable_root")
    assert str(folder) in sentence
    assert root in sentence


def test_a_root_of_a_later_version(folder: Path, control: Path) -> None:
    path = folder / "snapshot" / "snapshot-6"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    assert "99" in refuse(folder, control, "unsupported_version")


@pytest.mark.parametrize("kind", ["list", "manifest"])
def test_a_manifest_that_does_not_decode(folder: Path, control: Path, table: TableBuilder, kind: str) -> None:
    model = table.model("snapshot/snapshot-6")
    name = model.document["deltaManifestList"] if kind == "list" else model.delta[0].name
    (folder / "manifest" / name).write_bytes(b"Obj\x01 damaged")
    sentence = refuse(folder, control, "unreadable_root")
    assert str(folder) in sentence
    assert f"manifest/{name}" in sentence
    assert "expected" in sentence


@pytest.mark.parametrize("kind", ["snapshot/", "manifest/manifest-list-", "manifest/manifest-", "schema/"])
def test_a_document_that_may_not_be_read(
    folder: Path, control: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LocalStore.read

    def deny(self: LocalStore, key: str, max_bytes: int | None = None) -> Body:
        if key.startswith(kind):
            raise AccessDeniedError(f"read {self.location}/{key}: permission denied")
        return read(self, key, max_bytes)

    monkeypatch.setattr(LocalStore, "read", deny)
    sentence = refuse(folder, control, "access_denied")
    assert f"{folder}/{kind}" in sentence


@pytest.mark.parametrize("kind", ["list", "manifest"])
def test_a_manifest_that_is_missing(
    folder: Path, control: Path, table: TableBuilder, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what can be nobody's goes: a temporary file. The report names the root and what it lacks."""
    monkeypatch.setattr(capture, "DAMAGE_WAITS_S", (0.01, 0.01))
    temp = f"snapshot/.snapshot-9.{stable_uuid('t')}.tmp"
    plant(folder, temp)
    model = table.model("snapshot/snapshot-6")
    name = model.document["deltaManifestList"] if kind == "list" else model.delta[0].name
    (folder / "manifest" / name).unlink()
    gone, answer = execute(folder, control)
    assert gone == {temp}
    assert (answer.exit_code, answer.document["status"]) == (4, "damaged")
    findings = answer.document["findings"]
    assert name in findings["damaged_roots"]["snapshot/snapshot-6"]
    assert any("incomplete" in sentence and name in sentence for sentence in answer.sentences)


def test_a_table_whose_name_begins_alike(folder: Path, control: Path, tmp_path: Path) -> None:
    other = write_table(tmp_path / "orders2")
    plant(tmp_path / "orders2", ORPHAN)
    gone, _ = execute(folder, control)
    assert gone == {ORPHAN}
    assert (tmp_path / "orders2" / ORPHAN).is_file()
    assert_all_readable(other)


def test_a_table_in_a_folder_of_this_one(folder: Path, control: Path) -> None:
    nested = write_table(folder / "bucket-0" / "x")
    plant(folder / "bucket-0" / "x", ORPHAN)
    age(folder)
    gone, answer = execute(folder, control)
    assert gone == {ORPHAN}
    assert_all_readable(nested)
    assert (folder / "bucket-0" / "x" / ORPHAN).is_file()
    assert answer.exit_code == 0


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"),
    [
        (["--older-than", "2999-01-01T00:00:00Z"], "cutoff_in_future", 3),
        (["--older-than", "9999999999999999999"], "cutoff_in_future", 3),
        (["--older-than", "2999-01-01T00:00:00Z", "--no-writers", "none"], "cutoff_in_future", 3),
        (["--older-than", "NOW"], "cutoff_too_young", 3),
        (["--older-than", "NOW", "--no-writers", " "], "cutoff_too_young", 3),
        (["--older-than", "yesterday"], "bad_argument", 2),
        (["--older-than", "2026-01-31T12:00:00"], "bad_argument", 2),
        (["--quarantine", "5 fortnights"], "bad_argument", 2),
        (["--quarantine", "-1 d"], "bad_argument", 2),
        (["--parallelism", "0"], "bad_argument", 2),
        (["--parallelism", "65"], "bad_argument", 2),
        (["--parallelism", "many"], "bad_argument", 2),
        (["--mode", "elsewhere"], "bad_argument", 2),
        (["--engine", "flink"], "bad_argument", 2),
        (["--engine", "local", "--mode", "distributed"], "bad_argument", 2),
        (["--engine", "spark", "--scan-id", "../x"], "bad_argument", 2),
        (["--owned-external", "s3://not/declared"], "bad_argument", 2),
        (["--owned-external", "relative"], "bad_argument", 2),
    ],
)
def test_arguments_that_are_refused(folder: Path, control: Path, argv: list[str], code: str, exit_code: int) -> None:
    now = str(int(time.time() * 1000) - 23 * 3_600_000)
    sentence = refuse(folder, control, code, *(now if word == "NOW" else word for word in argv), exit_code=exit_code)
    assert "expected" in sentence


def test_a_word_that_means_nothing_is_said_of_a_database(tmp_path: Path, control: Path) -> None:
    """Each table refuses it, and the exit code is that of wrong usage."""
    for name in ("orders", "events"):
        write_table(tmp_path / "shop.db" / name)
    answer = call("remove-orphan-files", tmp_path / "shop.db", "--older-than", "long ago")
    assert answer.exit_code == 2
    assert "--older-than: expected" in answer.messages


def test_a_root_is_owned_by_one_table_and_not_by_a_database(tmp_path: Path, control: Path) -> None:
    """Two tables that declare it would each take the files of the other."""
    outside = tmp_path / "outside"
    tables = []
    for name in ("one", "two"):
        table = TableBuilder(
            LocalStore(str(tmp_path / "db" / name)), externals={str(outside): LocalStore(str(outside))}
        )
        path = f"{outside}/bucket-0/data-{stable_uuid(name)}-0.parquet"
        table.commit("+A", external={"A": path})
        tables.append(table)
    age(tmp_path)
    sentence = refuse(tmp_path / "db", control, "bad_argument", "--owned-external", str(outside), exit_code=2)
    assert "--owned-external" in sentence
    words = ("--engine", "lambda", "--scan-id", "s1", "--scan-queue", "https://sqs.eu-central-1.amazonaws.com/1/q")
    sentence = refuse(tmp_path / "db", control, "bad_argument", *words, exit_code=2)
    assert "--scan-id: expected a single table" in sentence, "it would wait for a scan of each"
    for table in tables:
        assert_all_readable(table)
    gone, answer = execute(tmp_path / "db", control)
    assert (gone, answer.exit_code) == (set(), 0), answer


@pytest.mark.parametrize("command", ["remove-orphan-files", "expire-snapshots"])
def test_the_next_command_allows_the_roots_of_this_one(tmp_path: Path, control: Path, command: str) -> None:
    """Without them, it would keep the files that this one planned to delete."""
    outside = tmp_path / "outside"
    table = TableBuilder(
        LocalStore(str(tmp_path / "t")),
        externals={str(outside): LocalStore(str(outside))},
        options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"},
    )
    file = outside / "bucket-0" / f"data-{stable_uuid('A')}-0.parquet"
    if command == "expire-snapshots":
        table.commit("+A", external={"A": str(file)})
        table.commit("-A")
    else:
        table.commit("+B", external={"B": f"{outside}/bucket-0/data-{stable_uuid('B')}-0.parquet"})
        file.write_bytes(b"orphan")
    table.commit("+C")
    age(tmp_path)
    option = "--owned-external" if command == "remove-orphan-files" else "--external-root"
    text = call(command, tmp_path / "t", option, outside, "--control", control).printed
    _, _, words = text.splitlines()[-1].partition("lakesweep ")
    assert file.exists()
    assert call(*shlex.split(words)).exit_code == 0
    assert not file.exists()


def test_a_young_age_with_a_reason(folder: Path, control: Path) -> None:
    os.utime(folder / ORPHAN)
    time.sleep(0.01)
    now = str(int(time.time() * 1000))
    gone, answer = execute(folder, control, "--older-than", now, "--no-writers", "the job was deleted")
    assert answer.exit_code == 0
    assert gone == {ORPHAN}
    (plan,) = control.rglob("header.json")
    assert json.loads(plan.read_text())["arguments"]["no_writers"] == "the job was deleted"


FOREIGN = [
    "snapshot/README",
    "snapshot/snapshot-",
    "snapshot/snapshot-x",
    "snapshot/snapshot-9.json",
    "snapshot/snapshot-9.tmp",
    "snapshot/.snapshot-9.tmp",
    "snapshot/snapshot-09",
    "snapshot/copy/snapshot-9",
    "tag/README",
    "tag/.tag-x.tmp",
    "branch/README",
    "branch/branch-",
    "branch/branch-b/README",
    "branch/branch-b/bucket-0/data-1.parquet",
    "branch/other/snapshot/snapshot-1",
    "changelog/README",
    "changelog/changelog-x",
]


@pytest.mark.parametrize("key", FOREIGN)
def test_a_foreign_name_among_the_documents(folder: Path, control: Path, table: TableBuilder, key: str) -> None:
    """The engine's cleaner stops at some of them and deletes others. Here it stays, is told, and stops nothing."""
    path = plant(folder, key)
    gone, answer = execute(folder, control)
    assert answer.exit_code == 0, answer
    assert gone == {ORPHAN}
    assert path.read_bytes() == b"orphan"
    assert key in answer.document["findings"]["kept"]["foreign"]["first"]
    assert any(key in sentence for sentence in answer.sentences)


@pytest.mark.parametrize("key", ["tag/tag-x/y", "tag/tag-success-file/y", "branch/branch-main/snapshot/snapshot-1"])
def test_a_foreign_name_that_could_be_a_root(folder: Path, control: Path, key: str) -> None:
    """What it needs is not known."""
    plant(folder, key)
    before = contents(folder)
    answer = run(folder, control, "--execute")
    assert answer.exit_code == 3, answer
    assert key in answer.messages
    assert contents(folder) == before


@pytest.mark.parametrize("type_", ["format-table", "object-table", "lance-table", "iceberg-table", "new"])
def test_other_types_of_tables(folder: Path, control: Path, type_: str) -> None:
    schema = folder / "schema" / "schema-0"
    document = json.loads(schema.read_text())
    schema.write_text(json.dumps({**document, "options": {**document["options"], "type": type_}}))
    sentence = refuse(folder, control, "unsupported_table_type")
    assert type_ in sentence


def test_no_schema(folder: Path, control: Path) -> None:
    (folder / "schema" / "schema-0").unlink()
    assert "schema" in refuse(folder, control, "not_a_table")


def test_a_schema_that_does_not_parse(folder: Path, control: Path) -> None:
    (folder / "schema" / "schema-0").write_bytes(b"{")
    assert "schema/schema-0" in refuse(folder, control, "unreadable_schema")


def test_an_older_schema_that_does_not_parse(folder: Path, control: Path, table: TableBuilder) -> None:
    """It says where files lie and what they are called, so all of them count."""
    table.alter(options={"x": "y"})
    (folder / "schema" / "schema-0").write_bytes(b"{")
    assert "schema/schema-0" in refuse(folder, control, "unreadable_schema")


def test_no_table_there(tmp_path: Path, control: Path) -> None:
    (tmp_path / "empty").mkdir()
    refuse(tmp_path / "empty", control, "not_a_table")
    refuse(tmp_path / "missing", control, "not_a_table")


def test_links(folder: Path, control: Path, tmp_path: Path, table: TableBuilder) -> None:
    """A link among data stays and is told; one where roots live hides what is behind it."""
    (tmp_path / "elsewhere").write_bytes(b"not ours")
    link = f"bucket-0/data-{stable_uuid('link')}-0.parquet"
    (folder / link).symlink_to(tmp_path / "elsewhere")
    gone, answer = execute(folder, control)
    assert gone == {ORPHAN}
    assert (tmp_path / "elsewhere").is_file()
    assert link in answer.document["findings"]["kept"]["link"]["first"]
    (folder / "tag").symlink_to(folder / "snapshot")
    refuse(folder, control, "symbolic_link")


@pytest.mark.parametrize("denied", ["list", "list_range"])
def test_a_folder_that_may_not_be_listed(
    folder: Path, control: Path, denied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(self: LocalStore, prefix: str, *bounds: object) -> Iterator[Any]:
        raise AccessDeniedError(f"list {self.location}/{prefix}: permission denied")

    monkeypatch.setattr(LocalStore, denied, deny)
    before = contents(folder)
    answer = run(folder, control, "--execute")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (3, "access_denied")
    monkeypatch.undo()
    assert contents(folder) == before


@pytest.mark.parametrize("is_small", [True, False], ids=["small", "large"])
def test_a_bucket_that_denies_one_listing(is_small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers 403 to each listing in turn, whatever it lists: exit code 3, and nothing goes."""
    if not is_small:
        monkeypatch.setattr("lakesweep.table.reach.capture.SMALL_OBJECTS", 0)
    scene = S3Scene()
    scene.table.commit("+A")
    scene.table.tag("t")
    scene.table.branch("b", from_tag="t")
    orphan = scene.orphan("b")
    scene.age()
    before = scene.listed()
    send = BaseClient._make_api_call  # type: ignore[attr-defined]
    listings: list[str] = []
    deny: list[int] = [0]

    def count(client: Any, operation: str, words: dict[str, Any]) -> Any:
        asks_control = words.get("Prefix", "").startswith("control-")  # whether it is new to the table, which may fail
        if operation == "ListObjectsV2" and words["Bucket"] == scene.bucket and not asks_control:
            listings.append(words["Prefix"])
            if len(listings) == deny[0]:
                denial: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
                raise ClientError(denial, operation)
        return send(client, operation, words)

    monkeypatch.setattr(BaseClient, "_make_api_call", count)
    place = ["--endpoint-url", moto_endpoint(), "--region", "us-east-1"]
    command = ["remove-orphan-files", scene.store.location, *place, "--json", "--execute", "--control"]
    # The first asks whether this is a table or a folder of tables; what a table is says the table's own listing.
    denied = set()
    deny[0] = 1
    while True:
        deny[0] += 1
        listings.clear()
        answer = call(*command, f"s3://{scene.bucket}/control-{deny[0]}")
        if len(listings) < deny[0]:
            break
        prefix = listings[deny[0] - 1]
        denied.add(prefix.removeprefix("db.db/t/"))
        had_begun = "the execution had begun" in answer.messages
        assert answer.exit_code == (4 if had_begun else 3), (prefix, answer)
        assert answer.document["refusal"]["code"] == "access_denied"
        assert prefix.rstrip("/") in answer.messages
        assert scene.listed() == before, prefix
    deny[0] = 0
    assert denied >= {"", "snapshot/", "tag/", "branch/"} | (set() if is_small else {"changelog/", "schema/"})
    assert before - scene.listed() == {orphan}, "the last one was not denied anything"
    assert_all_readable(scene.table)


def test_young_orphans_are_files_and_not_snapshots(folder: Path, control: Path) -> None:
    """An expiry keeps snapshots that are too young; a scan keeps files."""
    (folder / ORPHAN).touch()
    printed = call("remove-orphan-files", folder, "--control", control).printed
    assert "1 file (too young" in printed
    assert "snapshot (too young" not in printed
