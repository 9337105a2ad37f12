"""Hostile names: of tables, tags, branches, partitions, consumers, runs, plans and policies, from the command line on.

Whatever a name is, it names one thing or nothing; no terminal gets a character that it could act on; and no answer is
that of a crash.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.storage.local.store import LocalStore
from tests.attack.metadata import THOROUGH
from tests.support.s3_server import fresh_bucket, moto_endpoint, moto_store, seed_moto
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents

NAMES = (
    "", " ", ".", "..", "../..", "../../other", "/", "/etc/passwd", "a/b", "a//b", "a/", "\x1b[2J\x1b[31mred",
    "\x07", "a\tb", "a\nb", "a\rb", "\x7f", "\x9b31m", "\u202egnp", "\u2066x\u2069", "\u200b", "\ufeffx", "\u061c",
    "\U000e0041", "%", "%s%n", "%2e%2e%2f", "{}", "{0}", "{x!r}", "'", '"', "`id`", "$(id)", "$HOME", "~", "~root",
    "*", "?", "[a-z]", "\\", "\\..\\x", "-x", "--execute", "--", "x" * 1024, "é" * 512, "e\u0301", "\u00e9", "ﬁ",
    "K", "\u0131", "ß", "\uff10", "٣", "\ud800", "main", "snapshot", "tag-x", "success-file", "LATEST", "null",
    "None", "0", "-1", "1e9", "9" * 400, "con", "a:b", "a=b", "a,b", "a b", "🦀", "\u2028", "\x85",
)  # fmt: skip
"""The arguments of a process hold no NUL."""


def some(case: str) -> tuple[str, ...]:
    """Return the names that a test tries: all, or some that differ from test to test and not from run to run."""
    return NAMES if THOROUGH else tuple(random.Random(case).sample(NAMES, 12))


def checked(answer: Answer) -> Answer:
    """Fail where a terminal would get what it could act on, or where it is a crash."""
    for text in (answer.printed, answer.messages):
        odd = {sign for sign in text if sign != "\n" and not sign.isprintable()}
        assert not odd, f"{odd!r} in {text[:600]!r}"
    assert answer.exit_code in range(6), answer
    for word in ("Traceback", "this is a bug"):
        assert word not in answer.messages + answer.printed, answer.messages[-600:]
    assert len(answer.messages) < 20_000
    return answer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, another one beside it, and a secret above them."""
    home = tmp_path_factory.mktemp("home")
    (home / "secret").write_text("x")
    for name in ("t", "other"):
        table = TableBuilder(LocalStore(str(home / "db.db" / name)), partition_keys=("dt",))
        for number in range(1, 5):
            gone = (f"-F{number - 1}",) if number > 1 else ()
            table.commit(f"+F{number}", *gone, partition=("2026-01-01",))
        table.tag("keep", snapshot=2)
        table.branch("side", from_tag="keep")
        table.consumer("reader", 3)
        table.hint("LATEST", 4)
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "home", symlinks=True)
    return tmp_path / "home"


def places(home: Path) -> tuple[str, ...]:
    """Return the arguments that name the table and the control location."""
    return str(home / "db.db" / "t"), "--control", str(home / "control")


def elsewhere(home: Path) -> dict[str, bytes]:
    """Return all that no command here may change."""
    return {path: data for path, data in contents(home).items() if not path.startswith(("db.db/t/", "control/"))}


COMMANDS: dict[str, tuple[str, ...]] = {
    "create-tag": ("create-tag", "{table}", "{name}", "--execute"),
    "delete-tag": ("delete-tag", "{table}", "{name}", "--execute"),
    "rename-tag": ("rename-tag", "{table}", "keep", "{name}", "--execute"),
    "replace-tag": ("replace-tag", "{table}", "{name}", "--snapshot", "4", "--execute"),
    "create-branch": ("create-branch", "{table}", "{name}", "--tag", "keep", "--execute"),
    "delete-branch": ("delete-branch", "{table}", "{name}", "--execute"),
    "fast-forward": ("fast-forward", "{table}", "{name}", "--execute"),
    "rollback": ("rollback", "{table}", "--tag", "{name}", "--execute"),
    "rollback --version": ("rollback", "{table}", "--version", "{name}", "--execute"),
    "--branch": ("expire-snapshots", "{table}", "--branch", "{name}", "--retain-max", "1", "--execute"),
    "reset-consumer": ("reset-consumer", "{table}", "{name}", "--next-snapshot-id", "4", "--execute"),
    "clear-consumers": ("clear-consumers", "{table}", "--including-consumers", "{name}", "--execute"),
    "explain": ("explain", "{table}", "{name}"),
    "execute": ("execute", "{table}", "{name}"),
    "report": ("report", "{table}", "{name}"),
    "undo": ("undo", "{table}", "{name}", "--execute"),
    "--policy": ("show", "{table}", "--policy", "{name}"),
    "--older-than": ("expire-snapshots", "{table}", "--older-than", "{name}"),
    "--option": ("maintain", "{table}", "--option", "snapshot.time-retained={name}"),
    "files --tag": ("files", "{table}", "--tag", "{name}"),
    "--inventory": ("remove-orphan-files", "{table}", "--inventory", "{name}"),
    "--owned-external": ("remove-orphan-files", "{table}", "--owned-external", "{name}"),
    "--control": ("show", "{table}", "--control", "{name}"),
    "a command": ("{name}", "{table}"),
}


def _line(command: str, table: str, name: str, control: str) -> list[str]:
    words = [word.replace("{table}", table).replace("{name}", name) for word in COMMANDS[command]]
    return words if "--control" in words else [*words, "--control", control]


@pytest.mark.parametrize("command", COMMANDS)
def test_names_as_arguments(home: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _, control = places(home)
    (home / "cwd").mkdir()
    monkeypatch.chdir(home / "cwd")
    before = elsewhere(home)
    roots = {path: data for path, data in contents(home / "db.db" / "t").items() if "tag-keep" not in path}
    for name in some(command):
        checked(call(*_line(command, table, name, control)))
        after = {path: data for path, data in elsewhere(home).items() if not path.startswith("cwd/")}
        assert before == after, (name, before.keys() ^ after.keys())
        if command not in ("clear-consumers", "rollback --version", "rollback"):
            assert roots.items() <= contents(home / "db.db" / "t").items(), name


@pytest.mark.parametrize("verb", ["show", "maintain", "remove-orphan-files", "branches"])
def test_names_of_tables(home: Path, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "cwd").mkdir()
    monkeypatch.chdir(home / "cwd")
    before = contents(home)
    for name in some(verb)[:8]:
        for location in (name, f"{home}/db.db/{name}", f"file://{home}/{name}", f"nothing://{name}"):
            checked(call(verb, location, "--control", str(home / "control")))
    after = {path: data for path, data in contents(home).items() if not path.startswith(("cwd/", "control/"))}
    assert before == after


LISTINGS = (
    ("show",), ("files",), ("tags",), ("branches",), ("explain",), ("plans",), ("runs",), ("maintain",),
    ("expire-snapshots", "--retain-max", "1"), ("expire-tags",), ("remove-orphan-files",), ("tag-schedule",),
    ("delete-branch", "side"), ("expire-snapshots", "--retain-max", "1", "--execute"),
    ("remove-orphan-files", "--older-than", "2100-01-01", "--no-writers", "x", "--execute"),
)  # fmt: skip


def plant(put: object, source: TableBuilder) -> None:
    """Put objects of every hostile name wherever a table has names."""
    tag = source.store.read("tag/tag-keep").data
    snapshot = source.store.read("snapshot/snapshot-2").data
    schema = source.store.read("schema/schema-0").data
    for name in NAMES:
        objects = {
            f"tag/tag-{name}": tag, f"consumer/consumer-{name}": b'{"nextSnapshot": 3}',
            f"branch/branch-{name}/snapshot/snapshot-2": snapshot, f"branch/branch-{name}/schema/schema-0": schema,
            f"dt={name}/bucket-0/data-{name}.parquet": b"x", f"manifest/{name}": b"x", f"{name}": b"x",
            f"snapshot/{name}": b"x", f"index/index-{name}": b"x", f"statistics/{name}": b"x",
        }  # fmt: skip
        for key, data in objects.items():
            try:
                put(key, data)  # type: ignore[operator]
            except (MaintenanceError, OSError, ValueError, UnicodeError):
                continue  # no store has such a name


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("place", ["local", "s3"])
def test_names_in_a_table(home: Path, place: str, as_json: bool) -> None:
    """They are shown without what a terminal could act on, and no root is lost for them."""
    if place == "local":
        store = LocalStore(str(home / "db.db" / "t"))
        location, more = store.location, ["--control", str(home / "control")]
    else:
        bucket = fresh_bucket()
        store = moto_store("db.db/t", bucket=bucket)
        location = store.location
        more = ["--control", f"s3://{bucket}/control", "--endpoint-url", moto_endpoint(), "--region", "us-east-1"]
    builder = TableBuilder(store, partition_keys=("dt",))
    for number in range(1, 5):
        builder.commit(f"+G{number}", *((f"-G{number - 1}",) if number > 1 else ()), partition=("2026-01-01",))
    builder.tag("keep", snapshot=2)
    if place == "local":
        plant(store.put, builder)
    else:

        def put(key: str, data: bytes) -> None:
            if len(key.encode()) <= 1000:
                seed_moto(bucket, [f"db.db/t/{key}"], data)

        plant(put, builder)
    for words in LISTINGS:
        answer = checked(call(words[0], location, *words[1:], *more, *(["--json"] if as_json else [])))
        if as_json and answer.exit_code != 2:
            assert json.loads(answer.printed), words
    names = {entry.key for entry in store.list("")}
    assert builder.referenced("tag/tag-keep") <= names
