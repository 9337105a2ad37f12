"""`explain TABLE FILE`: why an object exists, or why it does not any more. This changes nothing.

It decides by the same rules as an orphan scan. It also says which roots need the file and until when, which rule
protects it, or which run deleted it.
"""

from dataclasses import dataclass

from lakesweep.control.audit.object_history import UNKNOWN
from lakesweep.errors import RefusedError
from lakesweep.model.paths.allowed import is_external
from lakesweep.operations.inspect.explain.explanation import GONE, WHAT, Deletion, Explanation, Holder, Origin, Status
from lakesweep.operations.inspect.explain.holders import Holding, grouped, holding_of, say_holders
from lakesweep.operations.inspect.explain.object import (
    AskedObject,
    asked_object,
    class_of,
    find_object,
    nested_table_of,
)
from lakesweep.operations.inspect.explain.runs import first_seen_of, origin_of, runs_on
from lakesweep.operations.inspect.health import command
from lakesweep.operations.inspect.judging import Judging, judge
from lakesweep.operations.lifetimes.until import Until
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.table.paths import PathsOfRoots

_BACK = frozenset({"restored", "already_there"})
_ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
_UNHELD = Holding()


@dataclass(frozen=True, slots=True)
class ExplainArguments:
    """The limits of the orphan scan in question."""

    older_than_ms: int | None = None
    """Only older objects could be deleted; default: a day ago."""
    quarantine_ms: int | None = None
    """An orphan is deleted only if a scan saw it at least this long ago."""


def explain_file(table: Table, file: str, arguments: ExplainArguments) -> Explanation:
    """Say why an object of a table exists, or what happened to it.

    Args:
        table: Any branch of it; the roots of all branches are considered.
        file: Relative to the table, or a whole URI.
        arguments: The limits of the orphan scan in question.

    Raises:
        UsageError: `file` cannot name an object.
        RefusedError: This is no table, roots cannot be read, or no root and no run knows such an object.
        StorageError: A request failed.
    """
    judging = judge(table, arguments.older_than_ms)
    return _Case(judging, arguments, asked_object(judging, file)).explanation()


class _Case:
    """One object, and everything that is known about it."""

    def __init__(self, judging: Judging, arguments: ExplainArguments, asked: AskedObject) -> None:
        self._judging = judging
        self._arguments = arguments
        self._asked = asked
        self._stored = None if asked.store is None else find_object(asked.store, asked.key)
        self._class = class_of(judging, asked)
        self._holders = judging.holders()
        self._paths = PathsOfRoots(judging.table.store, judging.found.listing)
        self._lifetimes = judging.lifetimes()
        self._warnings: list[str] = []

    def explanation(self) -> Explanation:
        """Return everything that is known about the object."""
        if self._asked.table is not None:
            home, other = self._judging.table.ref.location, self._asked.table
            why = f"it lies outside table {home}, in table {other}, which is maintained on its own"
            return self._held_outside() or self._protected(
                "other_table", f"{why}: {command('explain', other, self._asked.path, executes=False)}"
            )
        if self._asked.store is None:
            return self._held_outside() or self._protected(
                "undeclared_external_root",
                f"it lies outside table {self._judging.table.ref.location}, below no place that a schema of the table "
                "declares, so no operation on this table looks there",
            )
        if self._stored is None:
            return self._absent()
        if (document := self._document()) is not None:
            return document
        if (fixed := self._fixed_rule()) is not None:
            return self._protected(*fixed)
        rule = self._judging.sorting().why_kept(self._asked.path, self._stored.modified_ms, self._class)
        if rule == "live":
            return self._held()
        if rule is not None:
            return self._protected(rule, *self._say_rule(rule))
        if self._asked.root is not None:
            return self._protected(
                "external_root",
                f"no root needs it; other tables may lie below {self._asked.root}, so it is deleted only if "
                "--owned-external says that this root holds files of this table alone",
            )
        if not self._judging.roots:
            return self._protected(
                "no_roots", "the table has no snapshot, tag or changelog, so nothing is known to be an orphan"
            )
        return self._orphan()

    def _held_outside(self) -> Explanation | None:
        """Explain a file that some root needs although no schema of the table declares its place."""
        holding = self._holding()
        if not holding.needed or self._asked.path not in self._places(holding):
            return None
        held = self._groups(holding.needed, needs=True)
        where = "it lies below no place that a schema of the table declares"
        return self._answer("live", f"{say_holders(held)}; {where}", holding=holding, held_by=held)

    def _document(self) -> Explanation | None:
        """Explain an object that orphan scans never judge: a root, a schema or a similar document."""
        if self._class.policy != "never" or self._class.kind in ("pack", "nested") or self._asked.root is not None:
            return None
        if self._class.kind not in _ROOT_KINDS:
            return self._answer("document", self._class.why)
        refs = [ref for ref in self._judging.found.listing.roots() if ref.path == self._asked.path]
        if not refs:
            return self._answer("document", f"{self._class.why}; it appeared just now")
        return self._answer("document", self._class.why, until=self._lifetimes.of(refs)[self._asked.path])

    def _fixed_rule(self) -> tuple[str, str] | None:
        """Return the rule that keeps an object even if no root names it, and a clause about the rule."""
        if self._stored is not None and self._stored.is_link:
            return "link", "a symbolic link is never followed and never deleted"
        if self._asked.root is None and (folder := nested_table_of(self._asked)) is not None:
            return "nested_table", f"it belongs to the table in {folder}, which is maintained on its own"
        if self._class.policy == "never":
            return self._class.kind, self._class.why
        return None

    def _say_rule(self, rule: str) -> tuple[str, Until | None]:
        """Return a clause about a rule of the orphan scan, and how long the rule holds."""
        if rule == "too_young" and self._stored is not None:
            age_ms = self._judging.now_ms - self._judging.cutoff_ms
            end_ms = self._stored.modified_ms + age_ms
            until = Until(f"until {say_time(end_ms)}, if no root names it by then", end_ms)
            return "no root names it yet, but it is young, and its writer may still commit it", until
        if rule == "damaged_root":
            path, problem = min(self._judging.found.live.damaged.items())
            return f"{path} is incomplete and may need it: {problem}", Until("until that root is complete or deleted")
        if rule == "live_owner":
            owner = f"its data file {self._class.owner} is in use, and a writer may make it again under the same name"
            return owner, Until("until no root names the data file")
        return self._class.why, None

    def _held(self) -> Explanation:
        holding = self._holding()
        if holding.needed:
            held = self._groups(holding.needed, needs=True)
            why, expected = say_holders(held), holding.stated_size(self._asked.path, self._holders, self._paths)
            places = self._places(holding)
            if places and self._asked.path not in places:
                self._warnings.append(
                    f"readers look for the file of this name at {min(places)}; this one is kept by its name"
                )
            if expected is not None and self._stored is not None and expected != self._stored.size_bytes:
                why += f"; it has {self._stored.size_bytes} bytes, expected {expected} as their metadata states"
            return self._answer("live", why, holding=holding, held_by=held, expected_bytes=expected)
        held = self._groups(holding.named, needs=False)
        why = "no root needs it, but an orphan scan keeps what a root names"
        until = None
        if holding.is_deleted:
            why = "no root needs it: manifests delete it, and an orphan scan keeps what a manifest names"
            until = Until("until those manifests are merged, and the roots with these manifests are deleted")
        return self._answer("referenced", why, holding=holding, held_by=held, until=until)

    def _protected(self, rule: str, why: str, until: Until | None = None) -> Explanation:
        return self._answer("protected", why, rule=rule, until=until)

    def _orphan(self) -> Explanation:
        first_seen_ms = first_seen_of(self._judging.table.area, self._asked, self._stored)
        runs = self._runs(is_whole=False)
        origin = origin_of(self._asked.name, self._holders, first_seen_ms)
        quarantine_ms = self._arguments.quarantine_ms
        if quarantine_ms is not None and (
            first_seen_ms is None or first_seen_ms > self._judging.now_ms - quarantine_ms
        ):
            why = "no root names it, but no scan has seen that long enough ago to delete it"
            if first_seen_ms is None:
                until = Until("until a scan with quarantine has seen it, and the time of quarantine after that")
            else:
                end_ms = first_seen_ms + quarantine_ms
                until = Until(f"until {say_time(end_ms)}", end_ms)
            return self._answer("protected", why, rule="quarantine", until=until, runs=runs, origin=origin)
        why = "no root of any branch names it, and it is old enough for the next orphan scan to delete it"
        return self._answer("orphan", why, runs=runs, origin=origin)

    def _absent(self) -> Explanation:
        holding = self._holding()
        runs = self._runs(is_whole=True)
        places = self._places(holding)
        if places and self._asked.path not in places:
            # The roots need another object of this name. The object at this path is not known to be missing.
            self._refuse_other_place(holding, places, runs)
            holding = Holding()
        if holding.needed:
            held = self._groups(holding.needed, needs=True)
            why = f"it is not there, and {say_holders(held)}"
            return self._answer("missing", why, holding=holding, held_by=held, runs=runs)
        ours = next((run for run in runs if run.result in GONE | _BACK | {UNKNOWN}), None)
        if ours is not None and ours.result not in _BACK:
            when = "" if ours.time_ms is None else f" at {say_time(ours.time_ms)}"
            sent = "was to be deleted" if ours.result == UNKNOWN else "was deleted"
            if ours.result == "already_gone":
                sent = "was gone before it could be deleted"
            return self._answer(
                "deleted", f"it {sent}{when} by run {ours.run_id}: {ours.reason}", holding=holding, runs=runs
            )
        if holding.named:
            held = self._groups(holding.named, needs=False)
            why = "it is not there and no root needs it; roots only name it, and none of our runs deleted it"
            return self._answer("gone", why, holding=holding, held_by=held, runs=runs)
        unasked = " (the ledger was not asked: --control)" if self._judging.table.area is None else ""
        raise RefusedError(
            f"table {self._judging.table.ref}: expected an object at {self._asked.path}, found none, and no root and "
            f"no run knows of one{unasked}",
            code="no_such_file",
        )

    def _refuse_other_place(self, holding: Holding, places: set[str], runs: tuple[Deletion, ...]) -> None:
        """Say where the file of this name lies, unless our runs know an object at the requested path.

        Raises:
            RefusedError: Our runs do not know one.
        """
        if any(run.result in GONE | {UNKNOWN} for run in runs):
            return
        place = min(places)
        inside = not is_external(place)
        is_there = inside and find_object(self._judging.table.store, place) is not None
        says = "lies at" if is_there else "is missing at" if inside else "is said to lie at"
        held = say_holders(self._groups(holding.needed, needs=True))
        raise RefusedError(
            f"table {self._judging.table.ref}: expected an object at {self._asked.path}, found none; the file of that "
            f"name {says} {place}, and {held}. Ask for that path",
            code="no_such_file",
        )

    def _holding(self) -> Holding:
        """Return the mentions of the object's name. Reads every manifest, if some root refers to the name."""
        is_live = self._judging.found.live.has(self._asked.name)
        return holding_of(self._holders, self._asked.name) if is_live else Holding()

    def _places(self, holding: Holding) -> set[str]:
        return holding.places(self._asked.name, self._holders, self._paths)

    def _runs(self, *, is_whole: bool) -> tuple[Deletion, ...]:
        return runs_on(self._judging.table.area, self._asked, self._warnings, is_whole=is_whole)

    def _groups(self, roots: int, *, needs: bool) -> tuple[Holder, ...]:
        refs = [root.ref for root in self._holders.roots_in(roots)]
        return tuple(grouped(refs, self._lifetimes.of(refs), needs))

    def _answer(
        self,
        status: Status,
        why: str,
        *,
        holding: Holding = _UNHELD,
        rule: str | None = None,
        until: Until | None = None,
        held_by: tuple[Holder, ...] = (),
        runs: tuple[Deletion, ...] = (),
        origin: Origin | None = None,
        expected_bytes: int | None = None,
    ) -> Explanation:
        stored = self._stored
        kind = (self._class.kind == "foreign" and holding.kind) or self._class.kind
        return Explanation(
            table=self._judging.table.ref.location,
            path=self._asked.path,
            kind=kind,
            what=WHAT[kind],
            exists=None if self._asked.store is None else stored is not None,
            size_bytes=None if stored is None else stored.size_bytes,
            expected_bytes=expected_bytes,
            modified_ms=None if stored is None else stored.modified_ms,
            status=status,
            rule=rule,
            why=why,
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
            held_by=held_by,
            runs=runs,
            origin=origin,
            index=holding.index(self._holders, self._paths, self._judging.found.live),
            policy=self._lifetimes.policy,
            warnings=(*self._judging.warnings(), *self._warnings, *self._lifetimes.warnings),
        )
