"""Messages between the functions.

Each message carries the version of its format. A function that meets a later version leaves the message in its queue,
for a newer function. `hop` counts how often work was handed on, so a message that goes in circles ends.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Annotated, Any

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.codec import Check, Id, Text, from_json, to_json
from lakesweep.format.names import branch_name_of
from lakesweep.format.values.json_document import describe, get_int, parse_object, require_str, wrong_type
from lakesweep.model.commits.seen import Announced
from lakesweep.model.roots import MAIN
from lakesweep.storage.keys import is_key

MESSAGE_VERSION = 1
HOP_LIMIT = 16
_SCAN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
_LOCATION = re.compile(r"s3://[^\ud800-\udfff]{0,2043}", re.DOTALL)
"""Room for any bucket and key of S3."""
MAX_BODY_BYTES = 256 * 1024
"""Largest message that SQS accepts, and largest batch of messages."""
_MAX_STEP = 1_000_000
"""More steps than a scan can take before a bucket rule deletes its documents after a week."""


class NewerMessageError(RefusedError):
    """A message of a later version than this code knows."""

    code = "newer_message"


def _is_branch(name: str) -> bool:
    folder = f"branch-{name}"
    return name == MAIN or (branch_name_of(folder) == name and is_key(folder) and "/" not in name)


Location = Annotated[str, Check(_LOCATION.fullmatch, "s3://bucket/prefix")]
Branch = Annotated[str, Check(_is_branch, "the name of a branch")]
ScanId = Annotated[str, Check(_SCAN_ID.fullmatch, "letters, digits and dashes, 40 at most")]
"""The id of a scan becomes a part of keys and of an EMR token."""
Hop = Annotated[int, Check(range(HOP_LIMIT).__contains__, f"a whole number below {HOP_LIMIT}")]
OF_PASSES = ("expire-partitions", "compact-manifest")
"""The commits that a pass may request."""
BY_POLICY_ALONE: Mapping[str, object] = {"by_policy": True}
"""The arguments of a job that a pass may request."""
StepNumber = Annotated[int, Check(range(_MAX_STEP + 1).__contains__, f"a whole number from 0 to {_MAX_STEP}")]


@dataclass(frozen=True, slots=True)
class Hint:
    """A branch of a table may need a pass."""

    table: Location
    branch: Branch = MAIN
    snapshot_id: int | None = None
    """The commit that an event announced."""
    etag: Text | None = None
    """The ETag of its snapshot, if the event had it."""
    announced: tuple[Announced, ...] = ()
    """This commit and earlier ones, as events announced them; ascending by id."""
    hop: Hop = 0

    kind = "hint"


@dataclass(frozen=True, slots=True)
class Work:
    """Work for the larger executor: a stored plan, or a whole pass."""

    table: Location
    branch: Branch = MAIN
    plan_id: Text | None = None
    """`None`: a whole pass, which first finishes plans that have begun."""
    grace_ms: Annotated[int, Check(lambda span_ms: span_ms >= 0, "milliseconds from 0")] = 0
    confirm: bool = False
    """The sender has confirmed the plan, which needs a confirmation."""
    manual: bool = False
    """A person requested this plan. So the fleet policy can pause the table, but not prevent the execution."""
    announced: tuple[Announced, ...] = ()
    """Commits, as events announced them; only with a whole pass."""
    hop: Hop = 0

    @property
    def kind(self) -> str:
        """Return the word for its kind in the message."""
        return "maintain" if self.plan_id is None else "execute"


@dataclass(frozen=True, slots=True)
class Commit:
    """A request for an operation that commits a snapshot. Only the function `committer` may execute it.

    Each member must be there, and no other: a message that is read in part could take out too much.
    """

    operation: Text
    table: Location
    branch: Branch = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    manual: bool = False
    """A person requested it. Otherwise the fleet policy decides whether it is executed, and how."""
    run_id: Id | None = None
    """Id of the run that executes the request of a person, so that it commits once, also if its message comes twice."""
    hop: Hop = 0

    kind = "commit"

    def __post_init__(self) -> None:
        if self.manual != (self.run_id is not None):
            raise ValueError("run_id to be there if manual is true, and only then")
        if not self.manual and (self.operation not in OF_PASSES or self.arguments):
            raise ValueError(f"manual to be true for anything but {' or '.join(OF_PASSES)} without arguments")
        if not commits_snapshot(self.operation, self.arguments):
            raise ValueError(f"an operation that commits a snapshot, not {describe(self.operation)},")


def commits_snapshot(operation: str, arguments: Mapping[str, object]) -> bool:
    """Tell whether an operation with these arguments commits a snapshot, and a function can do that."""
    from lakesweep.runs.parameters.signatures import SIGNATURES  # most messages are about something else

    signature = SIGNATURES.get(operation)
    return signature is not None and signature.has_commit(arguments) and not signature.needs_spark


@dataclass(frozen=True, slots=True)
class Sweep:
    """A table sweep that looks for passes that are due; possibly the rest of one."""

    cursor: Text | None = None
    """The last folder that was visited; `None` at the beginning."""
    hop: Hop = 0

    kind = "sweep"


@dataclass(frozen=True, slots=True)
class TagSweep:
    """A table sweep that asks for passes where tags are due at this time; possibly the rest of one."""

    cursor: Text | None = None
    """The last folder that was visited; `None` at the beginning."""
    hop: Hop = 0

    kind = "tag_sweep"


@dataclass(frozen=True, slots=True)
class SparkScan:
    """A scan for orphan files on Spark; or only the execution of its plan."""

    table: Location
    scan_id: ScanId
    branch: Branch = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    execute: bool = False
    plan_id: Text | None = None
    """A stored plan to execute, instead of a scan."""
    confirm: bool = False
    """The sender has confirmed that plan, which needs a confirmation."""
    manual: bool = False
    """A person requested it. Otherwise the fleet policy decides whether the scan's plan is executed."""
    hop: Hop = 0

    kind = "spark"


@dataclass(frozen=True, slots=True)
class SparkRun:
    """A request for an operation that only a job on Spark can carry out.

    It has no value of a row: to delete rows, it names a file with the condition. That of a pass has no argument but
    that the fleet policy decides.
    """

    operation: Text
    table: Location
    scan_id: ScanId
    """Id of the job, and of its run."""
    branch: Branch = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    execute: bool = False
    hop: Hop = 0

    kind = "spark_run"

    def __post_init__(self) -> None:
        if not needs_spark(self.operation):
            raise ValueError(f"an operation that needs Spark, not {describe(self.operation)},")


def needs_spark(operation: str) -> bool:
    """Tell whether only a job on Spark can carry out an operation."""
    from lakesweep.runs.parameters.signatures import SIGNATURES  # most messages are about something else

    signature = SIGNATURES.get(operation)
    return signature is not None and signature.needs_spark


@dataclass(frozen=True, slots=True)
class SparkPoll:
    """A request to check all open scans on Spark, since an event may have been lost."""

    hop: Hop = 0

    kind = "spark_poll"


@dataclass(frozen=True, slots=True)
class OrphanScan:
    """A scan for orphan files that functions run together: its beginning, or its next step."""

    table: Location
    scan_id: ScanId
    branch: Branch = MAIN
    arguments: Mapping[str, object] = field(default_factory=dict)
    execute: bool = False
    manual: bool = False
    """A person requested this scan. So the fleet policy can pause the table, but not prevent the plan's execution."""
    step: StepNumber = 0
    """0 begins the scan; later steps check which tasks have ended."""
    hop: Hop = 0
    """Number of steps in a row without progress."""

    kind = "orphan_scan"


@dataclass(frozen=True, slots=True)
class OrphanTask:
    """A task of such a scan, for one worker."""

    table: Location
    scan_id: ScanId
    task: Annotated[Mapping[str, object], Check(len, "an object that says what to do")]
    """The task as the scan wrote it (`lakesweep.operations.orphans.fan_out`). The worker checks its content."""
    hop: Hop = 0

    kind = "orphan_task"


@dataclass(frozen=True, slots=True)
class OrphanSweep:
    """A table sweep that asks for the scans that are due; possibly the rest of one."""

    cursor: Text | None = None
    """The last folder that was visited; `None` at the beginning."""
    hop: Hop = 0

    kind = "orphan_sweep"


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """A request to delete old documents in the control location; possibly the rest of one."""

    cursor: Text | None = None
    """The last table's folder that was looked at; `None` at the beginning."""
    hop: Hop = 0

    kind = "housekeeping"


Message = (
    Hint
    | Work
    | Commit
    | Sweep
    | TagSweep
    | SparkScan
    | SparkRun
    | SparkPoll
    | OrphanScan
    | OrphanTask
    | OrphanSweep
    | Housekeeping
)


def next_hop(message: Message) -> Message | None:
    """Return a message with one more hop; `None` if it has been handed on too often."""
    return replace(message, hop=message.hop + 1) if message.hop + 1 < HOP_LIMIT else None


def to_body(message: Message) -> str:
    """Return the body of a message."""
    document = {"format_version": MESSAGE_VERSION, "kind": message.kind, "hop": message.hop, **_words(message)}
    return json.dumps(document, separators=(",", ":"), default=dict)


def _words(message: Message) -> dict[str, object]:
    """Return the fields that a message of its kind has in addition."""
    if isinstance(message, Work) and message.plan_id is None:
        return {"table": message.table, "branch": message.branch, "announced": message.announced}
    return {each.name: getattr(message, each.name) for each in fields(message) if each.name != "hop"}


def is_ours(document: dict[str, object]) -> bool:
    """Tell whether a document is one of Lakesweep's messages, not an event of S3."""
    return "format_version" in document and "kind" in document


def parse_message(body: str | bytes, name: str) -> Message:
    """Read the body of a message.

    Raises:
        NewerMessageError: The message has a later version.
        FormatError: It is not one of Lakesweep's messages.
    """
    try:
        data = body.encode() if isinstance(body, str) else body
    except UnicodeEncodeError as error:
        raise FormatError(f"{name}: expected JSON in UTF-8") from error
    if len(data) > MAX_BODY_BYTES:
        raise FormatError(f"{name}: expected {MAX_BODY_BYTES} bytes at most, found {len(data)}")
    return message_of(parse_object(data, name), name)


def message_of(document: dict[str, object], name: str) -> Message:
    """Read a parsed message; see `parse_message`."""
    version = get_int(document, "format_version", name)
    if version is None or version < 1:
        raise wrong_type(name, "format_version", "a whole number from 1", document.get("format_version"))
    if version > MESSAGE_VERSION:
        raise NewerMessageError(f"{name}: expected format_version {MESSAGE_VERSION} at most, found {version}")
    kind = require_str(document, "kind", name)
    if kind not in _OF_KIND:
        raise wrong_type(name, "kind", f"{', '.join(tuple(_OF_KIND)[:-1])} or {tuple(_OF_KIND)[-1]}", kind)
    of_kind = _OF_KIND[kind]
    if of_kind is Commit:
        members = {each: value for each, value in document.items() if each != "format_version"}
        commit: Commit = from_json(Commit, members, name)
        return commit
    if kind == "execute":
        require_str(document, "plan_id", name)
    elif kind == "maintain":
        document = {each: document.get(each) for each in ("table", "branch", "announced", "hop")}
    members = {each.name: _member(document, each) for each in fields(of_kind)}
    found: Message = from_json(of_kind, members if of_kind is Work else {**members, "kind": kind}, name)
    return found


_OTHERS = (Commit, Sweep, TagSweep, SparkScan, SparkRun, SparkPoll, OrphanScan, OrphanTask, OrphanSweep, Housekeeping)
_OF_KIND: dict[str, type[Message]] = {Hint.kind: Hint, "maintain": Work, "execute": Work}
_OF_KIND |= {each.kind: each for each in _OTHERS}


def _member(document: dict[str, object], each: Field[Any]) -> object:
    """Return the value of a field, or the default of an absent one. A flag counts only if it is true."""
    value = document.get(each.name)
    if value is None or (each.default is False and value is not True) or (each.default == MAIN and value == ""):
        return {} if each.default_factory is dict else None if each.default is MISSING else to_json(each.default)
    return value
