"""The way back of a plan that moved a branch: what each request becomes, and in which order."""

from collections.abc import Mapping, Sequence

from lakesweep.model.plan import Action, Delete, Put
from lakesweep.operations.undo.rules import Current, inverse


def put(phase: str, kind: str, path: str, body: str, former: str | None = None) -> Put:
    return Put(phase, kind, path, body, "why", if_absent=former is None, former=former, etag=former and "e")


def delete(phase: str, kind: str, path: str, body: str = "was") -> Delete:
    return Delete(phase, kind, path, len(body), "why", etag="e", body=body)


def after(actions: Sequence[Action], current: Mapping[str, Current]) -> list[tuple[str, str, str | None]]:
    return [(action.phase, action.path, action.body) for action in inverse(actions, current, "undone")]


def test_a_target_that_came_goes_last_where_others_return() -> None:
    """So the branch has a snapshot at every moment; its hint is set right after them. Then tags return."""
    actions = (
        delete("withdraw_tags", "tag", "tag/tag-t", "tagged"),
        put("target", "snapshot", "snapshot/snapshot-3", "3"),
        put("target", "hint", "snapshot/EARLIEST", "3"),
        put("point", "hint", "snapshot/LATEST", "3", former="7"),
        delete("withdraw", "snapshot", "snapshot/snapshot-7", "seven"),
        delete("withdraw", "snapshot", "snapshot/snapshot-6", "six"),
        delete("withdraw_changelogs", "changelog_document", "changelog/changelog-5", "five"),
    )
    current = {path: Current("3", "now") for path in ("snapshot/snapshot-3", "snapshot/EARLIEST", "snapshot/LATEST")}
    assert after(actions, current) == [
        ("publish", "changelog/changelog-5", "five"),
        ("publish", "snapshot/snapshot-6", "six"),
        ("publish", "snapshot/snapshot-7", "seven"),
        ("publish_hints", "snapshot/LATEST", "7"),
        ("publish_hints", "snapshot/EARLIEST", "3"),
        ("clean", "snapshot/snapshot-3", "3"),
        ("clean", "tag/tag-t", "tagged"),
    ]


def test_what_is_written_over_is_what_is_there_now() -> None:
    """Each condition is about the document as it is, not as the plan that is undone saw it."""
    actions = (put("replace", "snapshot", "snapshot/snapshot-2", "theirs", former="ours"),)
    (back,) = inverse(actions, {"snapshot/snapshot-2": Current("theirs", "now")}, "undone")
    assert back == Put("withdraw", "snapshot", "snapshot/snapshot-2", "ours", "undone", etag="now", former="theirs")
    (gone,) = inverse((put("schemas", "schema", "schema/schema-1", "s"),), {"schema/schema-1": Current("s", "now")}, "")
    assert gone == Delete("clean", "schema", "schema/schema-1", 1, "", "now", body="s")
    assert inverse((put("publish_tags", "tag", "tag/tag-t", "t"),), {}, "undone") == ()
    (returns,) = inverse((delete("withdraw_tags", "tag", "tag/tag-t", "t"),), {}, "undone")
    assert returns == Put("clean", "tag", "tag/tag-t", "t", "undone", if_absent=True)


def test_two_requests_at_one_path_are_two_on_the_way_back() -> None:
    """A hint that was set half way, and again at the end."""
    actions = (
        put("point", "hint", "snapshot/LATEST", "2", former="5"),
        put("publish_hints", "hint", "snapshot/LATEST", "9", former="2"),
    )
    found = inverse(actions, {"snapshot/LATEST": Current("9", "now")}, "undone")
    assert [(a.phase, a.body, a.etag, isinstance(a, Put) and a.former) for a in found] == [
        ("point", "2", "now", "9"),
        ("publish_hints", "5", None, "2"),
    ]


def test_where_none_of_before_is_left_the_newest_of_before_comes_first() -> None:
    """It takes over while those of the plan are above others; then they go from the newest down."""
    actions = (
        put("target", "snapshot", "snapshot/snapshot-3", "new"),
        delete("withdraw", "snapshot", "snapshot/snapshot-9", "nine"),
        delete("withdraw", "snapshot", "snapshot/snapshot-8", "eight"),
        put("publish", "snapshot", "snapshot/snapshot-2", "new"),
    )
    current = {f"snapshot/snapshot-{number}": Current("new", "now") for number in (2, 3)}
    found = inverse(actions, current, "undone")
    assert [(action.phase, action.path[-1], type(action)) for action in found] == [
        ("target", "9", Put),
        ("withdraw", "3", Delete),
        ("withdraw", "2", Delete),
        ("publish", "8", Put),
    ]
