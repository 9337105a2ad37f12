"""Pauses in the fleet policy: what they may say, whose holds, and edits that change nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import UsageError
from lakesweep.model.fleet_document import parse_fleet_policy
from lakesweep.model.fleet_edit import Edit, with_pause, without_pause
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.pause import EVERY_TABLE, Pause, Paused, time_text_ms, utc_text
from tests.conftest import REPOSITORY
from tests.support.sampling import examples

END = "2026-12-01T00:00:00Z"
END_MS = 1_796_083_200_000
PAUSE = Pause("incident 5", END_MS, "ann")
FOLDERS = ("s3://l", "s3://l/a", "s3://l/a/b", "s3://l/ab", "s3://other")


def spell(text: str) -> str:
    return text.rstrip("/")


def parse(body: bytes) -> FleetPolicy:
    return parse_fleet_policy(body, "policy", spell)


def paused(body: bytes, folder: str, pause: Pause = PAUSE, now_ms: int = 0) -> Edit:
    return with_pause(body, "policy", spell, folder, pause, now_ms)


def resumed(body: bytes, folder: str, now_ms: int = 0) -> Edit:
    return without_pause(body, "policy", spell, folder, now_ms)


def document(*rules: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"version": 1, **more, "rules": list(rules)}).encode()


def is_paused(policy: FleetPolicy, table: str, now_ms: int = 0) -> bool:
    rule = policy.at(now_ms).rule_for(table)
    return rule is not None and bool(rule.pause)


# --- what a document may say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (False, False),
        ({"reason": "why"}, Pause("why")),
        ({"reason": "why", "until": END, "by": "ann"}, Pause("why", END_MS, "ann")),
        ({"reason": "why", "until": "2026-12-01T01:00:00+01:00"}, Pause("why", END_MS)),
        ({"reason": "why", "until": "2026-12-01T00:00:00.0000001Z"}, Pause("why", END_MS)),
        ({"reason": "why", "until": "2026-11-30T23:59:59.999001Z"}, Pause("why", END_MS)),
    ],
)
def test_every_form(value: object, expected: Paused) -> None:
    """Of a rule and of the document; digits below a millisecond make a pause longer, never shorter."""
    assert parse(document({"tables": "/a", "pause": value})).rules[0].pause == expected
    assert parse(document(pause=value)).pause == expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        0,
        "true",
        [],
        {},
        {"reason": ""},
        {"reason": " "},
        {"reason": "a\u202eb"},
        {"reason": "x" * 501},
        {"reason": 5},
        {"until": END},
        {"reason": "why", "until": 5},
        {"reason": "why", "until": None},
        {"reason": "why", "until": "2026-12-01T00:00:00"},
        {"reason": "why", "until": "tomorrow"},
        {"reason": "why", "until": "9999-12-31T23:59:59-14:00"},
        {"reason": "why", "until": "\u0662026-12-01T00:00:00Z"},
        {"reason": "why", "by": None},
        {"reason": "why", "by": "a\nb"},
        {"reason": "why", "untl": END},
    ],
)
def test_what_stops_every_reader(value: object) -> None:
    """A pause that cannot be understood never counts as none."""
    for body in (document({"tables": "/a", "pause": value}), document(pause=value)):
        with pytest.raises(UsageError, match="pause") as refused:
            parse(body)
        assert refused.value.code == "bad_policy"


def test_an_end_is_written_as_it_is_read() -> None:
    """Milliseconds only where there are some."""
    assert (utc_text(END_MS), utc_text(END_MS + 7)) == (END, "2026-12-01T00:00:00.007Z")
    for epoch_ms in (0, 999, END_MS, END_MS + 7, 253_370_764_799_999):
        assert time_text_ms(utc_text(epoch_ms)) == epoch_ms


# --- whose pause holds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "inner", "before", "after"),
    [
        ({"reason": "out", "until": END}, None, "out", None),
        ({"reason": "out"}, {"reason": "in", "until": END}, "in", "out"),
        ({"reason": "out", "until": END}, {"reason": "in"}, "in", "in"),
        ({"reason": "out"}, False, None, None),
        (False, {"reason": "in", "until": END}, "in", None),
        (None, {"reason": "in", "until": END}, "in", None),
    ],
)
@pytest.mark.parametrize("is_document", [False, True])
def test_the_longest_folder_decides_and_an_ended_pause_says_nothing(
    outer: Any, inner: Any, before: str | None, after: str | None, is_document: bool
) -> None:
    """So a short pause of a table does not cut the longer one of its folder short."""
    rules = [] if is_document or outer is None else [{"tables": "s3://l", "pause": outer}]
    more = {"pause": outer} if is_document and outer is not None else {}
    own = {"tables": "s3://l/a"} if inner is None else {"tables": "s3://l/a", "pause": inner}
    policy = parse(document(*rules, {**own, "mode": "delete"}, **more))
    for now_ms, expected in ((0, before), (END_MS - 1, before), (END_MS, after), (END_MS + 1, after)):
        rule = policy.at(now_ms).rule_for("s3://l/a/t")
        assert rule is not None
        assert (rule.pause.reason if isinstance(rule.pause, Pause) else rule.pause or None) == expected


def test_a_pause_of_everything_holds_without_a_rule() -> None:
    """`rule_for` of a table that no rule names; its mode is not stated by that."""
    rule = parse(document(pause=True)).rule_for("s3://any/where")
    assert rule is not None
    assert (rule.pause, rule.deciders, rule.mode) == (True, {"pause": EVERY_TABLE}, "observe")
    assert parse(document(pause={"reason": "x", "until": END})).at(END_MS).rule_for("s3://any/where") is None


# --- edits -----------------------------------------------------------------------------------------------------------

EXAMPLE = next(
    part
    for part in (REPOSITORY / "docs/operations.md").read_text(encoding="utf-8").split("```")
    if part.startswith('json\n{"version": 1,\n "rules"')
).removeprefix("json\n")


def test_the_documented_policy() -> None:
    """A new rule stands below the others, a rule gets its pause beside its folder, and a resume takes both back."""
    body = EXAMPLE.encode()
    folder = paused(body, "s3://lake/new.db").body.decode()
    said = '"pause": {"reason": "incident 5", "until": "2026-12-01T00:00:00Z", "by": "ann"}'
    assert folder.replace(f',\n   {{"tables": "s3://lake/new.db", {said}}}', "") == EXAMPLE
    own = paused(body, "s3://lake/sales.db/orders").body.decode()
    assert own.replace(f', {said}, "protect', ', "protect') == EXAMPLE
    everything = paused(body, EVERY_TABLE).body.decode()
    assert everything.replace(f",\n {said}", "", 1) == EXAMPLE
    for edited, place in ((folder, "s3://lake/new.db"), (own, "s3://lake/sales.db/orders"), (everything, EVERY_TABLE)):
        assert resumed(edited.encode(), place).body == body


def test_an_exception_from_the_pause_of_a_folder() -> None:
    """A resume within a paused folder; the next pause of the folder has no exceptions, and says that they go."""
    body = paused(document({"tables": "s3://l/a", "mode": "delete"}), "s3://l").body
    some = resumed(body, "s3://l/a/b")
    assert some.changes == [("s3://l/a/b", None, False)]
    assert (is_paused(some.after, "s3://l/a/b/t"), is_paused(some.after, "s3://l/a/c")) == (False, True)
    again = paused(some.body, "s3://l/a", Pause("again"))
    assert again.changes == [("s3://l/a/b", False, None), ("s3://l/a", None, Pause("again"))]
    assert is_paused(again.after, "s3://l/a/b/t")
    everything = paused(some.body, EVERY_TABLE, Pause("all"))
    assert is_paused(everything.after, "s3://l/a/b/t")


def test_a_resume_leaves_other_pauses() -> None:
    """Whoever paused a table for a reason of its own is not overruled by the resume of its folder."""
    body = paused(paused(document(), "s3://l/a", Pause("own")).body, "s3://l").body
    found = resumed(body, "s3://l")
    assert found.changes == [("s3://l", PAUSE, None)]
    assert (is_paused(found.after, "s3://l/a"), is_paused(found.after, "s3://l/b")) == (True, False)
    assert resumed(found.body, EVERY_TABLE).changes == []
    assert resumed(document(pause=True), EVERY_TABLE).body == document()


def test_an_ended_pause_is_cleared_away() -> None:
    """By the next edit of anything; a rule that says something else stays."""
    ended = {"reason": "old", "until": "2001-01-01T00:00:00Z"}
    body = document({"tables": "/a", "pause": ended}, {"tables": "/b", "mode": "delete", "pause": ended}, pause=ended)
    found = paused(body, "/c", now_ms=END_MS - 1)
    assert json.loads(found.body) == {
        "version": 1,
        "rules": [{"tables": "/b", "mode": "delete"}, {"tables": "/c", "pause": PAUSE.stated()}],
    }


VALUES = st.sampled_from(
    [None, True, False, {"reason": "r"}, {"reason": "o", "until": END}, {"reason": 'q"}]', "by": "b"}]
)
OTHERS = st.sampled_from(
    [{}, {"mode": "delete"}, {"min_snapshots": 3, "protect_commit_users": ['a", "pause": true, "b']}]
)
DUMPS = st.sampled_from(
    [{}, {"indent": 2}, {"separators": (",", ":")}, {"indent": "\t", "separators": (" ,", "\r\n: ")}]
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    rules = []
    for folder in draw(st.permutations(FOLDERS))[: draw(st.integers(0, len(FOLDERS)))]:
        said, rule = draw(VALUES), {"tables": folder + draw(st.sampled_from(["", "/"])), **draw(OTHERS)}
        keys = draw(st.permutations(list({**rule, **({} if said is None else {"pause": said})})))
        rules.append({key: said if key == "pause" else rule[key] for key in keys})
    top: dict[str, object] = {"rules": rules, "version": 1}
    if (said := draw(VALUES)) is not None:
        top["pause"] = said
    return json.dumps({key: top[key] for key in draw(st.permutations(list(top)))}, **draw(DUMPS)).encode()


def _without_pauses(body: bytes) -> list[tuple[str, Any]]:
    found = json.loads(body)
    rules = [[(k, v) for k, v in rule.items() if k != "pause"] for rule in found["rules"]]
    return [(k, [r for r in rules if len(r) > 1] if k == "rules" else v) for k, v in found.items() if k != "pause"]


@settings(max_examples=examples(200), deadline=None)
@given(
    body=documents(),
    folder=st.sampled_from([*FOLDERS, "s3://l/a/b/c", EVERY_TABLE]),
    now_ms=st.sampled_from([0, END_MS - 1, END_MS]),
    is_pause=st.booleans(),
)
def test_any_edit_of_any_policy(body: bytes, folder: str, now_ms: int, is_pause: bool) -> None:
    """It does what it says to the tables, keeps all other keys and their order, and does nothing the second time."""
    pause = Pause("new", END_MS + 5, "ann")
    found = paused(body, folder, pause, now_ms) if is_pause else resumed(body, folder, now_ms)
    assert found.after == parse(found.body)
    assert _without_pauses(found.body) == _without_pauses(body)
    again = paused(found.body, folder, pause, now_ms) if is_pause else resumed(found.body, folder, now_ms)
    assert (again.body, again.changes) == (found.body, [])
    before = parse(body)
    stays = {each for each, said in before.at(now_ms).pauses.items() if said and each != folder}
    for table in (*FOLDERS, "s3://l/a/b/c/t", "s3://nowhere"):
        is_below = folder == EVERY_TABLE or table == folder or table.startswith(folder + "/")
        was, now = is_paused(before, table, now_ms), is_paused(found.after, table, now_ms)
        if not is_below:
            assert now == was, "tables elsewhere are as they were"
        elif is_pause:
            assert now, "a pause holds for everything below"
        elif now:
            # Still paused: by a folder below the resumed one that has a pause of its own.
            assert any(table == each or table.startswith(each + "/") or each == EVERY_TABLE for each in stays)
    if not is_pause:
        assert not is_paused(found.after, folder, now_ms) or folder == EVERY_TABLE


@settings(max_examples=examples(300), deadline=None)
@given(body=documents(), folder=st.sampled_from([*FOLDERS, "s3://new", EVERY_TABLE]))
def test_a_pause_and_its_resume_leave_no_trace(body: bytes, folder: str) -> None:
    """Every character is as before, where the pause had no exceptions and nothing was said about this folder."""
    policy, first = parse(body), paused(body, folder)
    is_empty = any(rule.tables == folder and not rule.deciders for rule in policy.rules)  # it says nothing, and goes
    if is_empty or is_paused(policy, folder) or [each for each, _, _ in first.changes] != [folder]:
        return
    if folder not in policy.pauses and "pause" not in json.loads(body):
        assert resumed(first.body, folder).body == body


def test_a_large_policy_is_changed_quickly() -> None:
    """Many rules; the result would be too large only at the limit of any policy."""
    ended = {"reason": "old", "until": "2001-01-01T00:00:00Z"}
    rules: list[dict[str, Any]] = [{"tables": f"/lake/{n}", "pause": ended} for n in range(2000)]
    found = paused(document(*rules), "/lake", now_ms=END_MS - 1)
    assert json.loads(found.body)["rules"] == [{"tables": "/lake", "pause": PAUSE.stated()}]
    filling = document({"tables": "/a", "protect_commit_users": ["x" * ((16 << 20) - 100)]})
    with pytest.raises(UsageError, match="expected at most 16777216 bytes") as refused:
        paused(filling, "/lake")
    assert refused.value.code == "bad_policy"
