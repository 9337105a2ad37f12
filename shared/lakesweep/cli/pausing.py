"""`lakesweep pause` and `resume`: edit the fleet policy, and say what goes on all the same."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Control, EndpointUrl, Json, Place, Policy, Region, option
from lakesweep.cli.text import counted, fields, human_time

PAUSE_EXAMPLES = (
    "lakesweep pause s3://lake/sales.db/orders --reason 'lost commit 42' --policy s3://ops/policy.json",
    "lakesweep pause s3://lake/sales.db --reason migration --until '4 h' --policy s3://ops/policy.json --execute",
    "lakesweep pause --all --reason 'S3 incident' --until 2099-01-31T12:00:00Z --policy s3://ops/policy.json --execute",
)
RESUME_EXAMPLES = (
    "lakesweep resume s3://lake/sales.db --policy s3://ops/policy.json --execute",
    "lakesweep resume --all --policy s3://ops/policy.json --execute",
)
_STILL = (
    "a running deletion of orphan files stops within ten minutes, in waves within a minute; other runs finish. A dead "
    "run is finished after the pause"
)
Target = Annotated[
    str | None, typer.Argument(metavar="[TABLE | PREFIX]", help="A table, or a folder: with all tables below it.")
]
EveryTable = Annotated[bool, option("--all", "All tables under the policy, also those without a rule.")]
Change = Annotated[bool, option("--execute", "Write the policy; otherwise nothing changes.")]


def pause(
    target: Target = None,
    *,
    every: EveryTable = False,
    reason: Annotated[str | None, option("--reason", "Why, in words. Each refused run says so.", "TEXT")] = None,
    until: Annotated[
        str | None,
        option(
            "--until",
            "When the pause is over by itself: a duration from now on such as '4 h', ISO-8601 with a zone, or epoch "
            "milliseconds. Without it, it lasts until `resume`.",
            "TIME",
        ),
    ] = None,
    execute: Change = False,
    policy: Policy = None,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """Pause tables in the fleet policy: no pass and no command that reads it changes them.

    Shows what would change in the policy, and writes it with --execute. Nothing else in the document changes, and
    nobody else's change is lost. Says which runs and scans of these tables are under way; a pause stops none at once.
    """
    place = _place(target, policy, control, endpoint_url, region, as_json=as_json)
    return _answer("pause", place, every=every, execute=execute, reason=reason, until=until)


def resume(
    target: Target = None,
    *,
    every: EveryTable = False,
    execute: Change = False,
    policy: Policy = None,
    control: Control = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    as_json: Json = False,
) -> int:
    """End a pause in the fleet policy.

    Takes back the pause of this table or folder, and no other: a table below it that was paused by itself stays paused.
    If a folder around it is paused, it becomes an exception. Shows what would change in the policy, and writes it with
    --execute.
    """
    place = _place(target, policy, control, endpoint_url, region, as_json=as_json)
    return _answer("resume", place, every=every, execute=execute, reason=None, until=None)


def _place(
    target: str | None,
    policy: str | None,
    control: str | None,
    endpoint_url: str | None,
    region: str | None,
    *,
    as_json: bool,
) -> Place:
    return Place(
        target or "",
        policy=policy,
        control=control,
        local_control=True,  # nothing is written there
        endpoint_url=endpoint_url,
        region=region,
        as_json=as_json,
    )


def _answer(action: str, place: Place, *, every: bool, execute: bool, reason: str | None, until: str | None) -> int:
    from lakesweep.cli.answer import answer_call

    def call() -> dict[str, Any]:
        from lakesweep.api.pauses import Wish, change_pause

        return change_pause(action, place, Wish(every, reason, until), execute=execute)

    return answer_call(call, lambda document: _lines(action, document), as_json=place.as_json)


def _lines(action: str, document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.model.pause import folder_text

    yield f"{action} of {folder_text(document['tables'])}: {document['status'].replace('_', ' ')}"
    yield from fields(_pairs(action, document, folder_text))


def _pairs(action: str, document: Mapping[str, Any], folder_text: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    yield "policy", document["policy"]
    for each in document["changes"]:
        yield "change", f"{folder_text(each['tables'])}: {_said(each['before'])} -> {_said(each['after'])}"
    for each in document["pauses"]:
        yield (
            "then" if document["status"] == "planned" else "in force",
            f"{folder_text(each['tables'])}: {_said(each['pause'])}",
        )
    if document["running"] is None:
        yield "running", "not known"
    else:
        known = counted(document["table_count"], "table")
        yield "running", f"something in {len(document['running'])} of {known} that the control location knows"
    for each in document["running"] or ():
        yield "running", f"{each['table']}: {_under_way(each)}"
    if action == "pause" and (document["running"] is None or document["running"]):
        yield "note", _STILL
    if document["status"] == "planned":
        yield "next", "the same command with --execute"


def _said(pause: Any) -> str:
    from lakesweep.model.pause import Pause

    if isinstance(pause, Mapping):
        return f"paused ({Pause(**pause)})"
    return {None: "nothing stated", True: "paused", False: "not paused"}[pause]


def _under_way(each: Mapping[str, Any]) -> str:
    words = []
    if each["state"] == "running":
        by = "" if each["by"] is None else f" by {each['by']}"
        until = human_time(each["until_ms"])
        words.append(f"run {each['run_id']}{by}, lease until {until} unless renewed")
    elif each["state"] == "unfinished":
        words.append(f"run {each['run_id']} died")
    if each["plan_id"] is not None:
        words.append(f"plan {each['plan_id']} has begun")
    words += [f"scan {scan}" for scan in each["scans"]]
    return ", ".join(words)
