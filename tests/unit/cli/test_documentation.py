"""`docs/cli_json.md` names every word that can appear in a document."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lakesweep
from lakesweep.model.paths import allowed
from lakesweep.model.plan import MOVE_PHASES
from lakesweep.operations.retention.rules.expire_snapshots import PHASES
from lakesweep.storage.requests import RequestCounter
from tests.support.documentation import DOCUMENT, section
from tests.unit.cli.command_line import KEYS

PACKAGE = Path(lakesweep.__file__).parent


def documented(text: str) -> set[str]:
    """Return the words in the first column of tables."""
    rows = re.findall(r"^\| (`[^|]+`) \|", text, flags=re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([a-z_]+)`", row)}


def words(node: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from words(node.body)
        yield from words(node.orelse)
    elif isinstance(node, ast.BoolOp | ast.Dict):
        for value in node.values:
            yield from words(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from words(node.func.value)
        for argument in node.args[1:]:
            yield from words(argument)
    elif isinstance(node, ast.Subscript):
        yield from words(node.value)


def trees(*folders: str) -> Iterator[ast.Module]:
    for folder in folders or ("",):
        place = PACKAGE / folder
        yield from map(parsed, [place] if place.is_file() else sorted(place.rglob("*.py")))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def error_codes() -> set[str]:
    """Return what the code passes as `code=`, or sets as an error class's `code`, and what the CLI makes up."""
    found: set[str] = set()
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "code":
                found.update(words(node.value))
            elif isinstance(node, ast.ClassDef):
                for statement in node.body:
                    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "code":
                        found.update(words(statement.value))
    found |= assigned("storage", "_CODES") | assigned("storage", "words") | returned("errors.py", "stop_code")
    for tree in trees("cli/answer.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "explain":
                for statement in ast.walk(node):
                    if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
                        found.update(words(statement.value.elts[0]))
    return found


def returned(folder: str, function: str) -> set[str]:
    """Return the texts that a function of a module returns."""
    return {
        word
        for tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
        for statement in ast.walk(node)
        if isinstance(statement, ast.Return) and statement.value is not None
        for word in words(statement.value)
    }


def passed(folder: str, function: str, position: int) -> set[str]:
    """Return the texts that a module passes to a function at a position."""
    return {
        word
        for tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == function
        for word in words(node.args[position])
    }


def assigned(folder: str, name: str) -> set[str]:
    """Return the texts that a module assigns to a name."""
    return {
        word
        for tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        for word in words(node.value)
    }


def test_every_code_is_documented() -> None:
    """A refusal or error code that the code can raise has its row."""
    found = error_codes()
    assert {"no_such_branch", "not_a_table", "stale", "internal", "interrupted", "control_missing"} <= found
    successes = {"deleted", "already_gone"}
    assert found - documented(section("Refusals and errors")) - successes == set()


def test_no_code_is_documented_that_is_gone() -> None:
    """A row with a word that the package does not know is out of date."""
    known = {node.value for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert documented(section("Refusals and errors")) - known == set()


def test_every_kind_is_documented() -> None:
    """Kinds that may be deleted or written, neither more nor less."""
    moved = set(allowed._MOVE_DELETE_PATHS) | set(allowed._MOVE_PUT_PATHS)
    assert documented(section("Kinds")) == set(allowed._DELETE_PATHS) | set(allowed._PUT_PATHS) | moved
    phases = re.findall(r"`([a-z_]+)`", section("Kinds").split("phases in the order")[1])
    assert tuple(phases) == (*PHASES, *MOVE_PHASES)


def test_every_reason_to_keep_is_documented() -> None:
    """Reasons of snapshots and of files, neither more nor less."""
    snapshots = returned("operations/retention/rules/snapshot_range.py", "why_kept") | passed(
        "operations/retention/rules/snapshot_cap.py", "cap_at", 2
    )
    files = (
        returned("table/reach/references.py", "_why")
        | returned("model/roots.py", "reason_to_keep")
        | returned("operations/retention/rules/expire_snapshots.py", "_why_kept")
    )
    for code in ("NOT_DECLARED", "NOT_ALLOWED", "OTHER_STORE", "REFUSED", "UNKNOWN_FILE", "NOT_CHECKED"):
        files |= assigned("table/fence.py", code)
    others = assigned("operations/retention/expire_changelogs.py", "STAYS") | assigned(
        "operations/retention/expire_consumers.py", "STAYS"
    )
    assert others == {"changelog_retention", "consumer_stays"}
    assert {"retain_min", "consumer", "limit", "too_young", "commit_user", "fleet_policy"} == snapshots
    assert {"live", "tagged", "branch", "changelog", "unreadable_root", "unknown_name"} <= files
    orphans = returned("operations/orphans/rules/orphans.py", "why_kept")
    for module in ("operations/orphans/rules/orphans.py", "operations/orphans/local.py"):
        orphans |= passed(module, "_divide", 1) | passed(module, "keep", 2)
    assert {"live", "document", "foreign", "reported", "link", "nested_table", "quarantine"} <= orphans
    assert documented(section("Reasons to keep")) == snapshots | files | others | orphans


def test_every_key_is_documented() -> None:
    """The keys of the maintenance document, in their order, in the example and in the table."""
    text = section("Maintenance: `expire-snapshots`, `maintain`, `execute`")
    rows = re.findall(r"^\| `([a-z_]+)` \|", text, flags=re.MULTILINE)
    assert tuple(rows) == KEYS
    for kind in RequestCounter().snapshot():
        assert f"`{kind}`" in text


def test_every_status_is_documented() -> None:
    """Statuses of a report, neither more nor less."""
    from typing import get_args

    from lakesweep.model.report import ToldStatus

    assert documented(section("Status")) == set(get_args(ToldStatus))


@pytest.mark.parametrize("code", ["precondition_failed", "access_denied", "is_link", "is_directory", "not_in_answer"])
def test_results_of_deletes_are_documented(code: str) -> None:
    """What a store may answer about one object."""
    assert code in documented(section("What became of an object"))


def test_examples_are_json() -> None:
    """Every example parses."""
    import json

    examples = re.findall(r"```json\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert len(examples) == 20
    assert tuple(json.loads(examples[0])) == KEYS
