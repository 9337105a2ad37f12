"""Read the document of the fleet policy.

The document decides about deletion, so nothing in it is guessed. An unknown word, a key given twice or a number that
could empty a table makes the whole document invalid.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn, TypeVar

from lakesweep.errors import FormatError, MaintenanceError, RefusedError, UsageError
from lakesweep.format.values.json_document import describe, parse_object, shorten
from lakesweep.format.values.options import parse_duration_ms, parse_int
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.policy import INT_MAX, FleetPolicy, FleetRule, KeepRules, Mode, SnapshotRetention

T = TypeVar("T")

POLICY_FORMAT_VERSION = 1

_DOCUMENT_KEYS = ("version", "rules")
_RULE_KEYS = (
    *("tables", "mode", "pause", "min_snapshots", "min_time_retained", "protect_commit_users", "retention"),
    *("time_zone", "tags", "external_roots"),
)
_COUNTS = {
    "snapshot.num-retained.min": "retain_min",
    "snapshot.num-retained.max": "retain_max",
    "snapshot.expire.limit": "limit",
}
_TIME = "snapshot.time-retained"
_STATING = ("snapshot.num-retained.min", "snapshot.num-retained.max", _TIME)
"""A retention must have one of these keys, as a table's schema must."""
_KEEP_COUNTS = ("keep_last", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")
_KEEP_KEYS = (*_KEEP_COUNTS, "keep_within", "keep_tags")


def parse_fleet_policy(body: bytes, location: str, spell: Callable[[str], str]) -> FleetPolicy:
    """Read a policy document.

    Args:
        body: JSON in UTF-8.
        location: The name in messages.
        spell: Returns the normal spelling of a folder's location.

    Raises:
        UsageError: With code `bad_policy`: the place in the document, the expected and the found value.
    """
    document = _document(body, location)
    _check_keys(document, _DOCUMENT_KEYS, location, "")
    version = document.get("version")
    if type(version) is not int or version != POLICY_FORMAT_VERSION:
        _refuse(location, "version", str(POLICY_FORMAT_VERSION), version)
    entries = document.get("rules")
    if not isinstance(entries, list):
        _refuse(location, "rules", "an array of rules", entries)
    rules: list[FleetRule] = []
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        rule = _Rule(entry, location, f"rules[{number}]", spell).read()
        if rule.tables in seen:
            _refuse(location, f"rules[{number}].tables", f"another folder than rules[{seen[rule.tables]}]", rule.tables)
        seen[rule.tables] = number
        rules.append(rule)
    return FleetPolicy(location, tuple(rules))


class _Rule:
    """One entry of `rules`, read key by key."""

    def __init__(self, entry: object, location: str, at: str, spell: Callable[[str], str]) -> None:
        self._location, self._at, self._spell = location, at, spell
        if not isinstance(entry, dict):
            _refuse(location, at, "an object", entry)
        _check_keys(entry, _RULE_KEYS, location, f"{at}.")
        self._entry: dict[str, object] = entry

    def read(self) -> FleetRule:
        users = self._entry.get("protect_commit_users", [])
        return FleetRule(
            tables=self._folder("tables", self._entry.get("tables")),
            mode=self._mode(),
            paused=self._paused(),
            floor=self._floor(),
            protect_commit_users=self._each("protect_commit_users", users, "commit users", "commit user", self._user),
            retention=self._retention(),
            time_zone=self._time_zone(),
            tags=self._tags(),
            external_roots=self._external_roots(),
        )

    def _external_roots(self) -> tuple[str, ...] | None:
        if "external_roots" not in self._entry:
            return None
        roots = self._array("external_roots", self._entry["external_roots"], "locations")
        return tuple(dict.fromkeys(self._folder("external_roots", text) for text in roots))

    def _folder(self, key: str, text: object) -> str:
        expected = "an absolute location such as s3://bucket/folder or /folder"
        if isinstance(text, str) and any(each in text for each in "*?[{"):
            # It would match nothing, and nobody would notice.
            self._refuse("tables", "a folder (it covers all tables at or below it), not a pattern", text)
        if not isinstance(text, str) or not (text.startswith("/") or ":/" in text):
            self._refuse(key, expected, text)
        return self._parsed(key, expected, text, lambda text, _: self._spell(text))

    def _mode(self) -> Mode:
        mode = self._entry.get("mode", "observe")
        if mode == "delete":
            return "delete"
        if mode != "observe":
            self._refuse("mode", '"observe" or "delete"', mode)
        return "observe"

    def _paused(self) -> bool:
        value = self._entry.get("pause", False)
        if not isinstance(value, bool):
            self._refuse("pause", "true or false", value)
        return value

    def _floor(self) -> SnapshotRetention | None:
        if "min_snapshots" not in self._entry and "min_time_retained" not in self._entry:
            return None
        count = self._positive("min_snapshots", self._entry.get("min_snapshots", 1))
        age_ms = self._span("min_time_retained", self._entry, "min_time_retained")
        return SnapshotRetention(retain_min=count, retain_max=INT_MAX, time_retained_ms=age_ms or 0, limit=INT_MAX)

    def _user(self, key: str, user: object) -> str:
        if not isinstance(user, str) or not user.strip():
            self._refuse(key, "commit users as texts", user)
        return user

    def _retention(self) -> SnapshotRetention | None:
        if "retention" not in self._entry:
            return None
        value = self._entry["retention"]
        if not isinstance(value, dict):
            self._refuse("retention", "an object of table options", value)
        _check_keys(value, (*_COUNTS, _TIME), self._location, f"{self._at}.retention.")
        if not any(key in value for key in _STATING):
            self._refuse("retention", f"one of {', '.join(_STATING)}", value)
        stated = {name: self._count(f"retention.{key}", value[key]) for key, name in _COUNTS.items() if key in value}
        if _TIME in value:
            stated["time_retained_ms"] = self._duration(f"retention.{_TIME}", value[_TIME])
        retention = replace(SnapshotRetention(), **stated)
        try:
            retention.check()
        except RefusedError as error:
            raise UsageError(f"policy {self._location}: {self._at}.retention: {error}", code="bad_policy") from error
        return retention

    def _time_zone(self) -> str | None:
        if "time_zone" not in self._entry:
            return None
        text = self._entry["time_zone"]
        expected = "a time zone such as Europe/Berlin, UTC or +08:00"
        if not isinstance(text, str):
            self._refuse("time_zone", expected, text)
        self._parsed("time_zone", expected, text, lambda text, _: parse_zone(text, "time_zone"))
        return text

    def _tags(self) -> tuple[KeepRules, ...]:
        rules: list[KeepRules] = []
        for number, entry in enumerate(self._array("tags", self._entry.get("tags", []), "rules")):
            at = f"tags[{number}]"
            if not isinstance(entry, dict):
                self._refuse(at, "an object", entry)
            rule = self._keep_rules(at, entry)
            if any(rule.pattern == other.pattern for other in rules):
                self._refuse(f"{at}.pattern", "each pattern once", rule.pattern)
            rules.append(rule)
        return tuple(rules)

    def _keep_rules(self, at: str, entry: dict[str, object]) -> KeepRules:
        _check_keys(entry, ("pattern", *_KEEP_KEYS), self._location, f"{self._at}.{at}.")
        pattern = self._pattern(f"{at}.pattern", entry.get("pattern"))
        if not any(key in entry for key in _KEEP_KEYS):
            # Without any rule, every tag that matches the pattern would be deleted.
            self._refuse(at, f"one of {', '.join(_KEEP_KEYS)}", entry)
        counts = {
            key.removeprefix("keep_"): self._positive(f"{at}.{key}", entry[key]) for key in _KEEP_COUNTS if key in entry
        }
        within_ms = self._span(f"{at}.keep_within", entry, "keep_within")
        tags: tuple[str, ...] = ()
        if "keep_tags" in entry:
            key, of = f"{at}.keep_tags", "patterns of names"
            tags = self._each(key, entry["keep_tags"], of, "pattern", self._pattern)
            if not tags:
                self._refuse(key, f"an array of {of}", entry["keep_tags"])
        return KeepRules(pattern=pattern, within_ms=within_ms, tags=tags, **counts)

    def _pattern(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "/" in value or not value.isprintable():
            self._refuse(key, "a pattern of tag names such as 20* or daily-*", value)
        return value

    def _array(self, key: str, value: object, of: str) -> list[object]:
        if not isinstance(value, list):
            self._refuse(key, f"an array of {of}", value)
        return value

    def _each(self, key: str, value: object, of: str, one: str, read: Callable[[str, object], str]) -> tuple[str, ...]:
        """Read an array of texts that has each text once."""
        found: list[str] = []
        for entry in self._array(key, value, of):
            text = read(key, entry)
            if text in found:
                self._refuse(key, f"each {one} once", text)
            found.append(text)
        return tuple(found)

    def _positive(self, key: str, value: object) -> int:
        if type(value) is not int or not 1 <= value <= INT_MAX:
            self._refuse(key, "a whole number, at least 1", value)
        return value

    def _count(self, key: str, value: object) -> int:
        if type(value) is int and abs(value) <= INT_MAX:
            return value
        if not isinstance(value, str):
            self._refuse(key, "a whole number", value)
        return self._parsed(key, "a whole number", value, parse_int)

    def _span(self, at: str, entry: Mapping[str, object], key: str) -> int | None:
        """Read a duration of at least 1 ms, if it is stated."""
        if key not in entry:
            return None
        span_ms = self._duration(at, entry[key])
        if span_ms == 0:
            self._refuse(at, "a duration of at least 1 ms", entry[key])
        return span_ms

    def _duration(self, key: str, value: object) -> int:
        """Read a duration with its unit. A bare number would be milliseconds, hardly the intention in a policy."""
        expected = "a duration with its unit such as 3 d"
        if not isinstance(value, str) or value.strip().isdigit():
            self._refuse(key, expected, value)
        return self._parsed(key, expected, value, parse_duration_ms)

    def _parsed(self, key: str, expected: str, text: str, parse: Callable[[str, str], T]) -> T:
        try:
            return parse(text, key)
        except MaintenanceError as error:
            raise _error(self._location, f"{self._at}.{key}", expected, text) from error

    def _refuse(self, key: str, expected: str, found: object) -> NoReturn:
        _refuse(self._location, f"{self._at}.{key}", expected, found)


def _document(body: bytes, location: str) -> dict[str, object]:
    try:
        document = parse_object(body, location)
        # Parse again to find keys that are given twice: of `"pause": true, "pause": false` neither may be chosen.
        json.loads(body, object_pairs_hook=_once)
    except FormatError as error:
        raise UsageError(f"policy {error}", code="bad_policy") from error
    except KeyError as error:
        raise UsageError(
            f"policy {location}: expected each key once, found {error} twice", code="bad_policy"
        ) from error
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _check_keys(document: Mapping[str, object], known: tuple[str, ...], location: str, at: str) -> None:
    for key in document:
        if key not in known:
            expected = ", ".join(at + name for name in known)
            raise UsageError(
                f"policy {location}: expected some of {expected}, found {shorten(at + key)}", code="bad_policy"
            )


def _refuse(location: str, at: str, expected: str, found: object) -> NoReturn:
    raise _error(location, at, expected, found)


def _error(location: str, at: str, expected: str, found: object) -> UsageError:
    return UsageError(f"policy {location}: {at}: expected {expected}, found {describe(found)}", code="bad_policy")
