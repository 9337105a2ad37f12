"""A control document that is damaged, forged or another one: an answer with a sentence, and no deletion for it."""

import json
import zlib
from random import Random

import pytest

from lakesweep.control.cache import read_cache
from tests.attack.control_documents import World, lies, make_world

EXIT_CODES = {0, 1, 2, 3, 4, 5}
KINDS = {
    "lease.json": 60,
    "state.json": 60,
    "orphans.ndjson.gz": 30,
    "orphan_scans.json": 60,
    "cache.bin": 30,
    "header.json": 120,
    "end.json": 40,
    "undone.json": 20,
    "reports/": 90,
    "ledger/": 60,
}


def commands(world: World) -> list[list[str]]:
    return [
        ["runs"],
        ["plans"],
        ["runs", "--json"],
        ["plans", "--json"],
        ["report", world.run_id],
        ["undo", world.run_id],
        ["show"],
        ["tags"],
        ["explain", "bucket-0/data-0123abcd-0000-0000-0000-000000000000-0.parquet"],
        ["maintain"],
        ["remove-orphan-files", "--older-than", "1 d"],
        ["maintain", "--execute"],
        ["undo", world.run_id, "--execute"],
        ["execute", world.plan_id, "--confirm", world.plan_id],
        ["remove-orphan-files", "--quarantine", "1 d", "--execute"],
    ]


@pytest.fixture(scope="module", params=[False, True], ids=["at_rest", "begun"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(begun=request.param)


@pytest.fixture(scope="module")
def allowed(world: World) -> dict[str, frozenset[str]]:
    """Command -> what goes with the documents as they are."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for words in commands(world):
            each = world.copy()
            each.run(words, patch)
            found[" ".join(words)] = world.paths() - each.paths()
    return found


def check(
    world: World,
    allowed: dict[str, frozenset[str]],
    key: str,
    lie: tuple[str, bytes],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[int, str, str]:
    each = world.copy()
    each.control.put(key, lie[1])
    code = each.run(words, monkeypatch)
    printed = capsys.readouterr()
    where = (key, lie[0], " ".join(words), code, printed.err)
    assert "Traceback" not in printed.err, where
    assert "this is a bug" not in printed.err, where
    assert code in EXIT_CODES, where
    gone = world.paths() - each.paths()
    assert gone <= allowed[" ".join(words)] | frozenset().union(*allowed.values()), where
    return code, printed.out, printed.err


def all_lies(world: World, kind: str) -> list[tuple[str, tuple[str, bytes]]]:
    documents = world.documents()
    keys = [key for key in documents if key.endswith(kind) or f"/{kind}" in key]
    return [(key, lie) for key in keys for lie in lies(key, documents[key], documents)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_lies(
    kind: str,
    world: World,
    allowed: dict[str, frozenset[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sample: each lie meets one command."""
    every = all_lies(world, kind)
    if not every:
        pytest.skip(f"no {kind} here")
    random = Random(kind)
    for key, lie in random.sample(every, min(KINDS[kind], len(every))):
        check(world, allowed, key, lie, random.choice(commands(world)), capsys, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_lie_meets_every_command(
    kind: str,
    world: World,
    allowed: dict[str, frozenset[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, lie in all_lies(world, kind):
        for words in commands(world):
            check(world, allowed, key, lie, words, capsys, monkeypatch)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"format_version": 1, "report": {}}', b"\xff"])
@pytest.mark.parametrize("command", ["runs", "plans"])
def test_a_damaged_document_spoils_its_own_row_alone(
    command: str, body: bytes, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    each = world.copy()
    assert each.run([command, "--json"], monkeypatch) == 0
    before = json.loads(capsys.readouterr().out)[command]
    name = f"reports/{world.run_id}.json" if command == "runs" else f"plans/{world.plan_id}/header.json"
    each.area.put(name, body)
    assert each.run([command, "--json"], monkeypatch) == 0
    after = json.loads(capsys.readouterr().out)[command]
    key, spoilt = ("run_id", world.run_id) if command == "runs" else ("plan_id", world.plan_id)
    assert sorted(str(row) for row in after if row[key] != spoilt) == sorted(
        str(row) for row in before if row[key] != spoilt
    )
    (row,) = [row for row in after if row[key] == spoilt]
    assert (row["status"], set(row)) == ("unreadable", set(before[0]))
    assert name in row["problem"]
    assert each.run([command], monkeypatch) == 0
    assert row["problem"] in capsys.readouterr().out


def test_names_that_a_scan_remembered_of_nothing_are_none(world: World) -> None:
    """A cache of another table, copied here."""
    area = world.copy().area
    data = zlib.decompress(area.read("cache.bin").data)
    area.put("cache.bin", zlib.compress(data.replace(b"memory://lie/t", b"memory://lie/u")))
    assert read_cache(area) == {}
