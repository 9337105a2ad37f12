"""Pause and resume tables in the text of the fleet policy: what changes, and the text with these changes alone.

A pause holds for everything at or below its folder afterwards: a `false` below it, an exception from an earlier pause,
goes. A resume takes back a pause of the same folder. If the rule of a folder around it pauses it still, it gets an
exception, `false`. Pauses of folders below have their own reasons and stay. Either removes the pauses that are over,
and a rule that says nothing without its pause.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakesweep.errors import UsageError
from lakesweep.format.values.json_document import MAX_BYTES
from lakesweep.format.values.json_edit import Change, Span, changed, inserted, items, members, removed, root
from lakesweep.model.fleet_document import parse_fleet_policy
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.pause import EVERY_TABLE, Pause, Paused
from lakesweep.model.policy import FleetRule

Spell = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Edit:
    """A policy before and after a change of pauses."""

    before: FleetPolicy
    after: FleetPolicy
    body: bytes
    """The document afterwards."""

    @property
    def changes(self) -> list[tuple[str, Paused | None, Paused | None]]:
        """Return the folders whose statement about the pause changes, with the former and the new one."""
        old, new = self.before.pauses, self.after.pauses
        folders = dict.fromkeys((*old, *new))
        return [(each, old.get(each), new.get(each)) for each in folders if old.get(each) != new.get(each)]


def with_pause(body: bytes, location: str, spell: Spell, folder: str, pause: Pause, now_ms: int) -> Edit:
    """Return a policy that pauses a folder.

    Args:
        body: The document.
        location: Of the document.
        spell: As of `parse_fleet_policy`.
        folder: As a rule names it, or `EVERY_TABLE`.
        pause: The new pause. It replaces what the folder's rule says about the pause.
        now_ms: Pauses that are over by then are removed.

    Raises:
        UsageError: With code `bad_policy`: the document is invalid, or would be too large.
    """
    policy = parse_fleet_policy(body, location, spell)
    stated = _stated(policy, now_ms)
    lifted = [each for each, said in stated.items() if said is False and _is_within(each, folder)]
    wanted = {each: said for each, said in stated.items() if each not in lifted}
    return _edited(policy, body, spell, {**wanted, folder: pause})


def without_pause(body: bytes, location: str, spell: Spell, folder: str, now_ms: int) -> Edit:
    """Return a policy that does not pause a folder. The arguments and errors are those of `with_pause`."""
    policy = parse_fleet_policy(body, location, spell)
    wanted = _stated(policy, now_ms)
    if wanted.get(folder):
        del wanted[folder]
    if folder != EVERY_TABLE and folder not in wanted:
        above = [each for each in wanted if _is_within(folder, each)]
        if above and wanted[max(above, key=lambda each: (each != EVERY_TABLE, len(each)))]:
            wanted[folder] = False
    return _edited(policy, body, spell, wanted)


def _stated(policy: FleetPolicy, now_ms: int) -> dict[str, Paused]:
    """Return what the policy says about pauses, without those that are over."""
    return dict(policy.at(now_ms).pauses)


def _is_within(folder: str, outer: str) -> bool:
    return outer == EVERY_TABLE or (folder != EVERY_TABLE and FleetRule(outer).holds_for(folder))


def _edited(policy: FleetPolicy, body: bytes, spell: Spell, wanted: Mapping[str, Paused]) -> Edit:
    if wanted == policy.pauses:
        return Edit(policy, policy, body)
    text = body.decode("utf-8")
    top = members(text, root(text))
    rules = next(each for each in top if each.key == "rules")
    changes = _of_document(text, top, policy.pause, wanted.get(EVERY_TABLE, False))
    changes += _of_rules(text, rules.value, policy, wanted)
    found = changed(text, changes).encode()
    if len(found) > MAX_BYTES:
        raise UsageError(
            f"policy {policy.location}: expected at most {MAX_BYTES} bytes with the pause, found {len(found)}",
            code="bad_policy",
        )
    after = parse_fleet_policy(found, policy.location, spell)
    _check_rest(policy, after, wanted)
    return Edit(policy, after, found)


def _of_document(text: str, top: list[Span], said: Paused, pause: Paused) -> list[Change]:
    if said == pause:
        return []
    own = next((number for number, each in enumerate(top) if each.key == "pause"), None)
    if own is not None:
        return [_replaced(top[own], pause)] if pause else removed(top, {own})
    first = next(number for number, each in enumerate(top) if each.key == "version")
    return [inserted(text, top, first, f'"pause": {_json(pause)}')]


def _of_rules(text: str, at: int, policy: FleetPolicy, wanted: Mapping[str, Paused]) -> list[Change]:
    spans, gone, changes = items(text, at), set[int](), list[Change]()
    for number, (rule, span) in enumerate(zip(policy.rules, spans, strict=True)):
        said = rule.pause if "pause" in rule.deciders else None
        pause = wanted.get(rule.tables)
        if said == pause:
            continue
        own = members(text, span.start)
        names = [each.key for each in own]
        if said is None and pause is not None:
            changes.append(inserted(text, own, names.index("tables"), f'"pause": {_json(pause)}'))
        elif pause is not None:
            changes.append(_replaced(own[names.index("pause")], pause))
        elif len(own) == 2:
            gone.add(number)
        else:
            changes += removed(own, {names.index("pause")})
    known = {rule.tables for rule in policy.rules}
    added = [
        f'{{"tables": {json.dumps(folder, ensure_ascii=False)}, "pause": {_json(pause)}}}'
        for folder, pause in wanted.items()
        if folder not in known and folder != EVERY_TABLE
    ]
    changes += removed(spans, gone)
    if not added:
        return changes
    if len(gone) < len(spans):
        return [*changes, inserted(text, spans, len(spans) - 1, added[0])]
    return [*changes, Change(at + 1, at + 1, added[0])]


def _replaced(span: Span, pause: Paused) -> Change:
    return Change(span.value, span.end, _json(pause))


def _json(pause: Paused) -> str:
    return json.dumps(pause.stated() if isinstance(pause, Pause) else pause, ensure_ascii=False)


def _check_rest(before: FleetPolicy, after: FleetPolicy, wanted: Mapping[str, Paused]) -> None:
    """Make sure that the new document says what is wanted about pauses, and nothing new about anything else."""
    if after.pauses != wanted or (after.control, _rest(after)) != (before.control, _rest(before)):
        raise AssertionError(f"policy {before.location}: the change would change more than pauses; nothing is written")


def _rest(policy: FleetPolicy) -> list[tuple[FleetRule, Mapping[str, str]]]:
    """Return the rules without what they say about pauses, and without those that say nothing else."""
    rules = [each.unpaused() for each in policy.rules]
    return [(each, each.deciders) for each in rules if each.deciders]
