"""Options of one meaning have one name: in every command, in calls as JSON, and in the fleet policy.

The options are read from the parser, so a new command or option is compared, too.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer

from lakesweep.aws.on_demand import Demand
from lakesweep.cli.main import app
from lakesweep.model import fleet_document
from lakesweep.runs.parameters.signatures import SIGNATURES

TIME = "ISO-8601 with a zone, or epoch milliseconds"

SEVERAL_TEXTS = {
    "--branch": "of the table; of execute: of the plan",
    "--engine": "what finds, deletes, searches and rewrites files",
    "--execute": "of a table, and of a bucket's notifications",
    "--limit": "of rows, and of what is listed",
    "--lose-tag": "of main, or of a later snapshot",
    "--partition": "what is dropped, and what is rewritten",
    "--older-than": "of tags it says how it goes with times to live and rules",
    "--quarantine": "of a scan, and of the scans that explain answers for",
    "--snapshot": "each command says what it does with the version",
    "--tag": "the same",
    "--timestamp": "the same, and whether the first or the last snapshot is meant",
    "--version": "the same",
    "--watermark": "the same",
    "--time-retained": "of a new tag, and of what expires",
    "--confirm": "of a stored plan, and of a condition that is true for every row",
    "--to": "rows of a table, with a folder and JSON lines; rows of runs and of the ledger",
    "--until": "of a pause, which ends then; of the runs of the ledger",
    "--where": "the rows that are read, and those that are deleted",
    "--with-deletion-vectors": "of each file, or of each partition",
    "--time-zone": "each command says what follows the zone, and the default",
}
"""Options whose help differs among commands, and why. Any other option has one text."""

SEVERAL_KINDS = {
    "--confirm": "a stored plan is confirmed by its id, so that no other one is; a condition stands beside it",
}
"""Options that take a value in one command and none in another, and why."""

SYNONYMS = (
    ("--time-zone", "--timezone", "--zone", "--tz"),
    ("--older-than", "--before", "--older", "--age", "--min-age"),
    ("--since", "--after", "--from", "--newer-than"),
    ("--timestamp", "--at", "--as-of", "--time"),
    ("--time-retained", "--retain", "--ttl", "--keep-for", "--retention"),
    ("--tag", "--name", "--tag-name"),
    ("--snapshot", "--snapshot-id", "--to-snapshot"),
    ("--next-snapshot-id", "--next-snapshot"),
    ("--pattern", "--match", "--matching", "--glob"),
    ("--including-consumers", "--including", "--include"),
    ("--excluding-consumers", "--excluding", "--exclude"),
    ("--control", "--control-location", "--state"),
    ("--policy", "--fleet-policy", "--rules"),
    ("--external-root", "--external-path", "--external"),
    ("--limit", "--last", "--max", "--newest", "--count"),
    ("--max-deletes", "--max-expire", "--expire-limit"),
    ("--grace", "--grace-period", "--wait"),
    ("--min-interval", "--interval", "--at-most-every"),
    ("--protect-commit-user", "--commit-user", "--user"),
    ("--option", "--set", "--table-option"),
    ("--execute", "--yes", "--apply", "--force", "--no-dry-run"),
    ("--json", "--format", "--output"),
)
"""Words for one meaning. Only the first of each is an option."""

SINGULAR = {"options": "option", "external_roots": "external_root"}
"""Names of objects and arrays in JSON. An option is repeated instead, so it names one of them."""
OF_A_RULE = {
    "tables", "mode", "pause", "retention", "tags", "min_snapshots", "min_time_retained", "manifests", "compaction",
}  # fmt: skip
"""Keys of a policy's rule that no command has: they say for which tables, and what Lakesweep may do unattended."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One option as one command has it."""

    command: str
    metavar: str | None
    is_flag: bool
    is_repeated: bool
    help: str


def _commands(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for word, each in below.items():
        yield from _commands(each, f"{name} {word}".strip())


def _options() -> dict[str, list[Shown]]:
    found: dict[str, list[Shown]] = defaultdict(list)
    for command, parsed in _commands(typer.main.get_command(app())):
        for each in parsed.params:
            if each.param_type_name == "option" and "--help" not in each.opts:
                shown = Shown(command, each.metavar, each.is_flag, each.multiple, each.help or "")
                found[each.opts[0]].append(shown)
    return found


OPTIONS = _options()


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_an_option_is_the_same_in_every_command(option: str) -> None:
    """One kind of value, and one text, unless a reason for several is stated. No option has a second name."""
    shown = OPTIONS[option]
    assert (len({(each.metavar, each.is_flag) for each in shown}) > 1) == (option in SEVERAL_KINDS), shown
    texts = {each.help for each in shown}
    assert (len(texts) > 1) == (option in SEVERAL_TEXTS), texts
    for each in shown:
        assert each.is_flag or each.metavar, each
        assert each.is_repeated == ("repeatable" in each.help), each
        if each.metavar == "TIME":
            assert TIME in each.help, each
        if each.metavar == "DURATION":
            assert re.search(r"'[0-9]+ (ms|s|min|h|d)'", each.help), each
    for first, *others in SYNONYMS:
        assert option not in others, f"use {first}"


def test_no_two_options_have_one_text() -> None:
    """Equal words would be one meaning under two names."""
    names = defaultdict(set)
    for option, shown in OPTIONS.items():
        for each in shown:
            names[each.help].add(option)
    assert {text: found for text, found in names.items() if len(found) > 1} == {}


def test_stated_reasons_are_about_options_that_exist() -> None:
    assert set(SEVERAL_TEXTS) <= set(OPTIONS)
    assert {first for first, *_ in SYNONYMS} <= set(OPTIONS)


@pytest.mark.parametrize("operation", sorted(SIGNATURES))
def test_json_and_options_have_the_same_names(operation: str) -> None:
    """Paimon's procedures name the arguments, and options are these names with dashes."""
    for parameter in SIGNATURES[operation].parameters:
        if parameter.typed is not None and not parameter.is_positional:
            name = SINGULAR.get(parameter.name, parameter.name)
            assert parameter.typed == f"--{name.replace('_', '-')}"
            assert operation in {each.command for each in OPTIONS[parameter.typed]}


def test_a_demand_has_the_names_of_options() -> None:
    """`table`, `plan_id` and `operation` are words of a command line, and `arguments` holds the options."""
    of_calls = set(Demand.__annotations__) - {"operation", "arguments", "table", "plan_id"}
    assert {f"--{name.replace('_', '-')}" for name in of_calls} <= set(OPTIONS)


def test_a_policy_has_the_names_of_options() -> None:
    """A key that holds an array is the plural of the option that is repeated."""
    keys = {*fleet_document._RULE_KEYS, *fleet_document._KEEP_KEYS, "pattern"}
    assert keys > OF_A_RULE
    for key in sorted(keys - OF_A_RULE):
        option = f"--{key.replace('_', '-')}"
        assert {option, option.removesuffix("s")} & set(OPTIONS), key
