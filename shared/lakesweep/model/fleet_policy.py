"""The fleet policy: what unattended maintenance may do to which table, in one document for many tables.

A *rule* names a folder and applies to every table at or below it. If several rules match, only the one with the longest
folder applies. A rule allows deletion (`mode`) or stops it (`pause`). It may demand to keep more than the table's own
options say, never less. It sets the retention only for tables whose schema states none.

The document decides about deletion, so nothing in it is guessed. An unknown word, a key given twice or a number that
could empty a table makes the whole document invalid.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from lakesweep.errors import FormatError, MaintenanceError, RefusedError, UsageError
from lakesweep.format.values.json_document import describe, parse_object, shorten
from lakesweep.format.values.options import parse_duration_ms, parse_int
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.model.tag_rules import KeepRules

POLICY_FORMAT_VERSION = 1

Mode = Literal["observe", "delete"]

_DEFAULTS = SnapshotRetention()
_DOCUMENT_KEYS = ("version", "rules")
_RULE_KEYS = (
    "tables",
    "mode",
    "pause",
    "min_snapshots",
    "min_time_retained",
    "protect_commit_users",
    "retention",
    "time_zone",
    "tags",
    "external_roots",
)
_COUNTS = ("snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.expire.limit")
_TIME = "snapshot.time-retained"
_RETENTION_KEYS = (*_COUNTS, _TIME)
_STATING = ("snapshot.num-retained.min", "snapshot.num-retained.max", _TIME)
"""A retention must have one of these keys, as a table's schema must."""
_KEEP_COUNTS = ("keep_last", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")
_KEEP_KEYS = (*_KEEP_COUNTS, "keep_within", "keep_tags")


@dataclass(frozen=True, slots=True)
class FleetRule:
    """The rules for the tables of one folder."""

    tables: str
    """The folder in its normal spelling, without a trailing slash."""
    mode: Mode = "observe"
    """`observe`: plan and report, delete nothing."""
    paused: bool = False
    floor: SnapshotRetention | None = None
    """A snapshot is only deleted if these rules allow it, too."""
    protect_commit_users: tuple[str, ...] = ()
    """The last snapshot of each of these users is kept."""
    retention: SnapshotRetention | None = None
    """The rules for tables whose schema states none."""
    time_zone: str | None = None
    """The zone of tag names, tag times and days, if neither the table nor the call states one."""
    tags: tuple[KeepRules, ...] = ()
    """Calendar rules of tags. A tag that matches a rule, and that no rule keeps, is deleted."""
    external_roots: tuple[str, ...] | None = None
    """Below these locations, files outside the tables may be deleted; `None`: the rule does not say."""

    def holds_for(self, table: str) -> bool:
        """Tell whether a table, spelled as `tables`, is this folder or lies below it."""
        return table == self.tables or table.startswith(self.tables.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """A valid policy document."""

    location: str
    rules: tuple[FleetRule, ...]
    etag: str | None = None
    """ETag of the document, if the store has one."""

    def rule_for(self, table: str) -> FleetRule | None:
        """Return the rule with the longest folder that applies to `table`, `None` if no rule does."""
        return max(
            (rule for rule in self.rules if rule.holds_for(table)), key=lambda rule: len(rule.tables), default=None
        )


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
        return FleetRule(
            tables=self._tables(),
            mode=self._mode(),
            paused=self._paused(),
            floor=self._floor(),
            protect_commit_users=self._users(),
            retention=self._retention(),
            time_zone=self._time_zone(),
            tags=self._tags(),
            external_roots=self._external_roots(),
        )

    def _tables(self) -> str:
        return self._folder("tables", self._entry.get("tables"))

    def _external_roots(self) -> tuple[str, ...] | None:
        if "external_roots" not in self._entry:
            return None
        value = self._entry["external_roots"]
        if not isinstance(value, list):
            self._refuse("external_roots", "an array of locations", value)
        return tuple(dict.fromkeys(self._folder("external_roots", text) for text in value))

    def _folder(self, key: str, text: object) -> str:
        expected = "an absolute location such as s3://bucket/folder or /folder"
        if isinstance(text, str) and any(each in text for each in "*?[{"):
            # It would match nothing, and nobody would notice.
            self._refuse("tables", "a folder (it covers all tables at or below it), not a pattern", text)
        if not isinstance(text, str) or not (text.startswith("/") or ":/" in text):
            self._refuse(key, expected, text)
        try:
            return self._spell(text)
        except MaintenanceError as error:
            raise _error(self._location, f"{self._at}.{key}", expected, text) from error

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
        count = self._entry.get("min_snapshots", 1)
        if type(count) is not int or not 1 <= count <= INT_MAX:
            self._refuse("min_snapshots", "a whole number, at least 1", count)
        age_ms = 0
        if "min_time_retained" in self._entry:
            text = self._entry["min_time_retained"]
            age_ms = self._duration("min_time_retained", text)
            if age_ms == 0:
                self._refuse("min_time_retained", "a duration of at least 1 ms", text)
        return SnapshotRetention(retain_min=count, retain_max=INT_MAX, time_retained_ms=age_ms, limit=INT_MAX)

    def _users(self) -> tuple[str, ...]:
        value = self._entry.get("protect_commit_users", [])
        if not isinstance(value, list):
            self._refuse("protect_commit_users", "an array of commit users", value)
        users: list[str] = []
        for user in value:
            if not isinstance(user, str) or not user.strip():
                self._refuse("protect_commit_users", "commit users as texts", user)
            if user in users:
                self._refuse("protect_commit_users", "each commit user once", user)
            users.append(user)
        return tuple(users)

    def _retention(self) -> SnapshotRetention | None:
        if "retention" not in self._entry:
            return None
        value = self._entry["retention"]
        if not isinstance(value, dict):
            self._refuse("retention", "an object of table options", value)
        _check_keys(value, _RETENTION_KEYS, self._location, f"{self._at}.retention.")
        if not any(key in value for key in _STATING):
            self._refuse("retention", f"one of {', '.join(_STATING)}", value)
        counts = {key: self._count(f"retention.{key}", value[key]) for key in _COUNTS if key in value}
        retention = SnapshotRetention(
            retain_min=counts.get("snapshot.num-retained.min", _DEFAULTS.retain_min),
            retain_max=counts.get("snapshot.num-retained.max", _DEFAULTS.retain_max),
            time_retained_ms=self._duration(f"retention.{_TIME}", value[_TIME])
            if _TIME in value
            else _DEFAULTS.time_retained_ms,
            limit=counts.get("snapshot.expire.limit", _DEFAULTS.limit),
        )
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
        try:
            parse_zone(text, "time_zone")
        except FormatError as error:
            raise _error(self._location, f"{self._at}.time_zone", expected, text) from error
        return text

    def _tags(self) -> tuple[KeepRules, ...]:
        value = self._entry.get("tags", [])
        if not isinstance(value, list):
            self._refuse("tags", "an array of rules", value)
        rules: list[KeepRules] = []
        for number, entry in enumerate(value):
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
        counts = {key: self._keep_count(f"{at}.{key}", entry[key]) for key in _KEEP_COUNTS if key in entry}
        within_ms = self._duration(f"{at}.keep_within", entry["keep_within"]) if "keep_within" in entry else None
        if within_ms == 0:
            self._refuse(f"{at}.keep_within", "a duration of at least 1 ms", entry["keep_within"])
        return KeepRules(
            pattern=pattern,
            last=counts.get("keep_last"),
            within_ms=within_ms,
            daily=counts.get("keep_daily"),
            weekly=counts.get("keep_weekly"),
            monthly=counts.get("keep_monthly"),
            yearly=counts.get("keep_yearly"),
            tags=self._patterns(f"{at}.keep_tags", entry["keep_tags"]) if "keep_tags" in entry else (),
        )

    def _keep_count(self, key: str, value: object) -> int:
        if type(value) is not int or not 1 <= value <= INT_MAX:
            self._refuse(key, "a whole number, at least 1", value)
        return value

    def _patterns(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            self._refuse(key, "an array of patterns of names", value)
        patterns: list[str] = []
        for entry in value:
            pattern = self._pattern(key, entry)
            if pattern in patterns:
                self._refuse(key, "each pattern once", pattern)
            patterns.append(pattern)
        return tuple(patterns)

    def _pattern(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or "/" in value or not value.isprintable():
            self._refuse(key, "a pattern of tag names such as 20* or daily-*", value)
        return value

    def _count(self, key: str, value: object) -> int:
        if not isinstance(value, str):
            if type(value) is int and abs(value) <= INT_MAX:
                return value
            self._refuse(key, "a whole number", value)
        try:
            return parse_int(value, key)
        except FormatError as error:
            raise _error(self._location, f"{self._at}.{key}", "a whole number", value) from error

    def _duration(self, key: str, value: object) -> int:
        """Read a duration with its unit. A bare number would be milliseconds, hardly the intention in a policy."""
        expected = "a duration with its unit such as 3 d"
        if not isinstance(value, str) or value.strip().isdigit():
            self._refuse(key, expected, value)
        try:
            return parse_duration_ms(value, key)
        except FormatError as error:
            raise _error(self._location, f"{self._at}.{key}", expected, value) from error

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
