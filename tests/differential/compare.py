"""Do the same files survive, does every survivor still read, and did ours say what it did?

A difference between the two sets of surviving files is a problem unless one of the *rules* explains it. A rule wants
proof from the engine's own view of the table, and that ours gave the matching reason of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from tests.differential.files import Listing
from tests.differential.ours import REFUSED, Answer
from tests.differential.truth import Root


@dataclass(frozen=True, slots=True)
class Rule:
    """A difference that is allowed."""

    sentence: str
    reported_as: frozenset[str] = frozenset()
    """Reasons for keeping of which ours has to give one; empty when nothing of the kind is to be reported."""


RULES: Mapping[str, Rule] = {
    "retained-root": Rule(
        "only ours keeps it: a surviving root of the branch refers to it, and the engine deletes it all the same",
        frozenset({"live", "tagged", "changelog"}),
    ),
    "branch-root": Rule(
        "only ours keeps it: a root of another branch refers to it, and the engine looks at one branch only",
        frozenset({"branch"}),
    ),
    "basename-live": Rule(
        "only ours keeps it: a surviving root refers to a file of the same name in another directory",
        frozenset({"live", "tagged", "changelog", "branch"}),
    ),
    "unreadable-root": Rule(
        "only ours keeps it: the engine cannot read some surviving root, so nobody knows what that one needs",
        frozenset({"unreadable_root"}),
    ),
    "earliest-hint": Rule("the EARLIEST hint was too high; without that hint the engine leaves the same files"),
    "successor-time": Rule(
        "ours judges a snapshot by its successor's age, as later versions of the engine do; told to, this one agrees"
    ),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One table, and what became of it in two hands."""

    before: Listing
    roots: tuple[Root, ...]
    """The truth before."""
    engines: Listing
    """What the engine left."""
    engine_refusal: str | None
    """Its exception, when it would not."""
    reference: Listing
    """What the engine leaves when no hint misleads it and a snapshot's age is that of its successor; where a hint does,
    also by the engine's own rule of age, if that leaves the same snapshots as ours."""
    earliest_too_high: bool
    """The EARLIEST hint named a later snapshot than the first one."""
    ours: Listing
    """What ours left."""
    answer: Answer
    reads: Mapping[str, Mapping[str, int] | str]
    """What the engine reads from each root in what ours left."""
    after: tuple[Root, ...] = ()
    """The truth of what ours left; changelogs that were snapshots are among it."""

    @property
    def surviving(self) -> tuple[Root, ...]:
        """Return the roots whose documents ours left."""
        return tuple(root for root in self.roots if root.path in self.ours.files)


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong, the worst first."""
    yield from _lost(evidence)
    yield from _incomplete(evidence)
    yield from _read_differently(evidence)
    yield from _status(evidence)
    yield from _unexplained(evidence)
    yield from _unreported(evidence)
    yield from _rewritten(evidence)
    yield from _hints(evidence)
    yield from _document(evidence)


def explained(evidence: Evidence) -> dict[str, str]:
    """Return each difference that a rule explains: path -> the rule's name."""
    only_ours = evidence.ours.paths - evidence.engines.paths
    rules = {path: rule for path in only_ours if (rule := _why_ours_keeps(path, evidence))}
    if evidence.ours.snapshots == evidence.reference.snapshots:
        differ = evidence.ours.paths ^ evidence.engines.paths
        by_reference = differ - (evidence.ours.paths ^ evidence.reference.paths)
        rules |= dict.fromkeys(by_reference, "earliest-hint" if evidence.earliest_too_high else "successor-time")
    return rules


def _why_ours_keeps(path: str, evidence: Evidence) -> str | None:
    owners = {root.branch for root in evidence.surviving if path in root.files}
    if "main" in owners:
        return "retained-root"
    if owners:
        return "branch-root"
    name = PurePosixPath(path).name
    if any(PurePosixPath(other).name == name for root in evidence.surviving for other in root.files):
        return "basename-live"
    if any(root.error is not None for root in evidence.surviving):
        return "unreadable-root"
    return None


def _lost(evidence: Evidence) -> Iterator[str]:
    for root in evidence.surviving:
        for path in sorted((root.files & evidence.before.paths) - evidence.ours.paths):
            yield f"LOST: {root} needs {path}"


def _incomplete(evidence: Evidence) -> Iterator[str]:
    """A snapshot that became a changelog has all that a reader of changes needs."""
    for root in evidence.after:
        if root.path not in evidence.before.paths:
            for path in sorted(root.files - evidence.ours.paths):
                yield f"HOLLOW: {root} needs {path}"
            if root.error is not None:
                yield f"HOLLOW: {root} cannot be read: {root.error}"


def _read_differently(evidence: Evidence) -> Iterator[str]:
    for root in evidence.surviving:
        # what could not be read before need not be readable now
        if isinstance(root.reads, Mapping) and evidence.reads.get(str(root)) != root.reads:
            yield f"READS DIFFERENTLY: {root} gave {root.reads}, gives {evidence.reads.get(str(root))}"


def _status(evidence: Evidence) -> Iterator[str]:
    """Both do it, or both refuse and touch nothing."""
    answer, refusal = evidence.answer, evidence.engine_refusal
    if refusal is None and answer.exit_code != 0:
        yield f"ours ended with {answer.exit_code}, the engine did its work: {answer.messages} {answer.document}"
    if refusal is not None and answer.exit_code not in REFUSED:
        yield f"ours ended with {answer.exit_code}, the engine refused: {refusal}"
    if answer.exit_code in REFUSED and evidence.before != evidence.ours:
        yield "ours refused and changed files all the same"


def _unexplained(evidence: Evidence) -> Iterator[str]:
    known = explained(evidence)
    for path in sorted(evidence.ours.paths - evidence.engines.paths - known.keys()):
        yield f"only ours keeps it, and nothing that survives needs it: {path}"
    for path in sorted(evidence.engines.paths - evidence.ours.paths - known.keys()):
        yield f"only the engine keeps it: {path}"


def _unreported(evidence: Evidence) -> Iterator[str]:
    if not evidence.answer.document:
        return
    steps = _steps(evidence.answer.document)
    reasons = {reason for step in steps for reason, count in step["kept"].items() if count}
    for rule in sorted(set(explained(evidence).values())):
        if RULES[rule].reported_as and not reasons & RULES[rule].reported_as:
            yield f"files stay by {rule}, and the document gives only {sorted(reasons)} as reasons"


def _rewritten(evidence: Evidence) -> Iterator[str]:
    for path in sorted(evidence.before.paths & evidence.ours.paths):
        # a changelog may be there already when its snapshot becomes one; the engine writes it again, too
        if evidence.before.files[path] != evidence.ours.files[path] and not path.startswith("changelog/"):
            yield f"rewritten: {path}"


def _hints(evidence: Evidence) -> Iterator[str]:
    engines, reference, ours = evidence.engines.hints, evidence.reference.hints, evidence.ours.hints
    for name in sorted(engines.keys() & ours.keys()):
        if ours[name].strip() not in (engines[name].strip(), reference[name].strip()):
            yield f"{name} says {ours[name]!r}, the engine's says {reference[name]!r}"
    for name in sorted(ours.keys() ^ engines.keys()):
        listings = (evidence.engines, evidence.reference)
        if all((name in ours) != (name in listing.hints) for listing in listings) and not any(
            name not in ours and _says_nothing(name, listing) for listing in listings
        ):
            yield f"only {'ours' if name in ours else 'the engine'} has {name}"


def _says_nothing(name: str, listing: Listing) -> bool:
    """Tell whether a hint says no more than a listing.

    The engine writes this one when it has looked at changelogs and dropped none. Ours then writes nothing.
    """
    ids = [int(path.rpartition("-")[2]) for path in listing.paths if path.startswith("changelog/")]
    return name == "changelog/EARLIEST" and bool(ids) and listing.hints.get(name, "").strip() == str(min(ids))


def _document(evidence: Evidence) -> Iterator[str]:
    """The document that ours printed agrees with what happened."""
    document = evidence.answer.document
    if evidence.answer.exit_code != 0 or not document:
        return
    steps = _steps(document)
    actions = [action for step in steps for action in step["actions"]]
    # one pass may make a changelog of a snapshot and drop it
    fleeting = {action["path"] for action in actions if action["kind"] == "changelog_document"} - evidence.before.paths
    gone = (evidence.before.paths - evidence.ours.paths) | fleeting
    hints = len(evidence.before.hints.keys() - evidence.ours.hints.keys())
    deleted = sum(step["outcome"]["deleted"] for step in steps if step["outcome"])
    if deleted != len(gone) + hints:
        yield f"the document ({document['status']}) counts {deleted} deleted files, and {len(gone) + hints} are gone"
    inside = {path for path in gone if not path.startswith("/")}  # external files are named by their URI there
    for path in sorted(inside - {action["path"] for action in actions}):
        yield f"gone without an action in the document: {path}"
    expired = {f"{_KINDS[step['operation']]}-{id}" for step in steps for id in step["snapshots"]["expired"]}
    if expired != {path for path in gone if path.startswith(("snapshot/", "changelog/"))}:
        yield f"the document says that {sorted(expired)} expired, and others are gone"


_KINDS = {"expire-snapshots": "snapshot/snapshot", "expire-changelogs": "changelog/changelog"}


def _steps(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the documents of the steps, or the document itself where there are none."""
    steps: Sequence[Mapping[str, Any]] = document["steps"] or [document]
    return steps
