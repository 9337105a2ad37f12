"""From events to passes: triage runs once for each branch's newest commit, however many messages announce it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lakesweep.aws.events import CommitHint, hints_of_document
from lakesweep.aws.messages import Hint, is_ours, message_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.format.values.json_document import parse_object, wrong_type
from lakesweep.model.commits.seen import MOST_SEEN, Announced
from lakesweep.operations.maintenance.triage import triage

Branch = tuple[str, str]
_MOST_ANNOUNCED = 200
"""So many snapshots of a branch a message tells; 100 events arrive at once."""
_MOST_BRANCHES = 2000


class RecentCommits:
    """What earlier batches announced to this process.

    Of two events for one snapshot, the second may come in another batch. While the process lives, this shows it.
    """

    def __init__(self) -> None:
        self._known: dict[Branch, tuple[Announced, ...]] = {}

    def others_than(self, branch: Branch, announced: Iterable[Announced]) -> Iterator[Announced]:
        """Yield snapshots with the same ids, and other ETags."""
        etags = {each.id: each.etag for each in announced}
        return (each for each in self._known.get(branch, ()) if etags.get(each.id, each.etag) != each.etag)

    def keep(self, branch: Branch, announced: Iterable[Announced]) -> None:
        """Keep the newest snapshots that were announced, for the branches of the latest batches."""
        known = self._known.pop(branch, ())
        self._known[branch] = tuple(sorted({*known, *announced})[-MOST_SEEN:])
        if len(self._known) > _MOST_BRANCHES:
            del self._known[next(iter(self._known))]


class Commits:
    """The commits that one batch of messages announces."""

    def __init__(self, runtime: Runtime, bodies: Iterable[str], context: Context, recent: RecentCommits) -> None:
        """Find the newest commit of each branch in a batch.

        Args:
            runtime: The function's runtime.
            bodies: Bodies of all messages of the batch; `take` deals with those it cannot parse.
            context: The context of this invocation.
            recent: What earlier batches announced.
        """
        self._recent = recent
        self._runtime = runtime
        self._context = context
        self._hints_in: dict[str, tuple[Hint, ...]] = {}
        self._newest: dict[Branch, Hint] = {}
        self._announced: dict[Branch, dict[tuple[int, str], Announced]] = {}
        self._failed: dict[Branch, MaintenanceError | None] = {}
        for body in dict.fromkeys(bodies):
            try:
                self._hints_in[body] = self._hints(body, "message")
            except MaintenanceError:
                continue
            for hint in self._hints_in[body]:
                self._keep_newest(hint)

    def take(self, body: str, name: str) -> None:
        """Handle every hint in a message.

        Raises:
            FormatError: It is neither an event nor one of Lakesweep's messages. Another attempt would fail, too.
            NewerMessageError: It needs a newer function.
            MaintenanceError: A request failed; SQS repeats the message.
        """
        telemetry = self._runtime.telemetry
        telemetry.count("EventsReceived")
        hints = self._hints_in.get(body)
        if hints is None:
            try:
                hints = self._hints(body, name)  # fails again, this time with the name of the message
            except FormatError:
                telemetry.count("EventsRejected")
                raise
        if not hints:
            telemetry.count("EventsIgnored")
        for hint in hints:
            if self._runtime.is_ours(hint.table, name):
                self._settle((hint.table, hint.branch))

    def _settle(self, branch: Branch) -> None:
        if branch not in self._failed:
            try:
                announced = tuple(sorted(self._announced[branch].values())[-_MOST_ANNOUNCED:])
                before = tuple(self._recent.others_than(branch, announced))
                self._sort(replace(self._newest[branch], announced=tuple(sorted((*before, *announced)))))
                self._recent.keep(branch, announced)
            except MaintenanceError as error:
                self._failed[branch] = error
            else:
                self._failed[branch] = None
        failed = self._failed[branch]
        if failed is not None:
            raise failed

    def _sort(self, hint: Hint) -> None:
        runtime = self._runtime
        if hint.snapshot_id is None:
            runtime.queues.ask_for_pass(hint)
            return
        table = runtime.open_table(hint.table, hint.branch, self._context)
        try:
            found = triage(table, hint.snapshot_id, runtime.settings.min_interval_ms, hint.etag, hint.announced)
        finally:
            runtime.telemetry.count_requests(table.counter.snapshot())
        if found.is_due:
            runtime.queues.ask_for_pass(hint)
        elif found.wait_ms and not runtime.queues.again(hint, delay_s=-(-found.wait_ms // 1000)):
            runtime.telemetry.count("HopLimitReached")
            runtime.telemetry.warn("a hint was handed on too often", table=hint.table, branch=hint.branch)

    def _hints(self, body: str, name: str) -> tuple[Hint, ...]:
        document = parse_object(body.encode("utf-8", "surrogatepass"), name)
        if is_ours(document):
            message = message_of(document, name)
            if not isinstance(message, Hint):
                raise wrong_type(name, "kind", "hint", message.kind)
            return (message,)
        accounts = self._runtime.settings.accounts
        return tuple(_as_hint(hint, name, accounts) for hint in hints_of_document(document, name))

    def _keep_newest(self, hint: Hint) -> None:
        told = self._announced.setdefault((hint.table, hint.branch), {})
        for each in hint.announced:
            told.setdefault((each.id, each.etag), each)
        known = self._newest.get((hint.table, hint.branch))
        if known is None or _rank(hint) > _rank(known):
            self._newest[hint.table, hint.branch] = hint


def _rank(hint: Hint) -> float:
    """Return how new a hint is. A hint without a commit always asks for a pass."""
    return float("inf") if hint.snapshot_id is None else hint.snapshot_id


def _as_hint(hint: CommitHint, name: str, accounts: frozenset[str]) -> Hint:
    if hint.account is not None and accounts and hint.account not in accounts:
        raise wrong_type(name, "account", "an account of this deployment", hint.account)
    return Hint(hint.location, hint.branch, hint.snapshot_id, hint.etag, hint.announced)
