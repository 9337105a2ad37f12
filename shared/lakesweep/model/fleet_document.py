"""Read the document of the fleet policy.

The document decides about deletion, so nothing in it is guessed. An unknown word, a key given twice or a number that
could empty a table makes the whole document invalid.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from lakesweep.errors import RefusedError, UsageError
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.fleet_control import control_of
from lakesweep.model.fleet_json import check_keys, document_of, refuse
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.fleet_values import RuleValues
from lakesweep.model.pause import read_pause
from lakesweep.model.policy import (
    CATALOG_TYPES,
    CatalogType,
    CompactionRules,
    FleetRule,
    KeepRules,
    Mode,
    SnapshotRetention,
)

POLICY_FORMAT_VERSION = 1
"""A version of Lakesweep that knows only `true` and `false` refuses a document with any other pause, and stops."""

_DOCUMENT_KEYS = ("version", "pause", "rules", "control")
_RULE_KEYS = (
    *("tables", "mode", "pause", "min_snapshots", "min_time_retained", "protect_commit_users", "retention"),
    *("time_zone", "tags", "external_roots", "catalog_type", "catalog_lock", "partitions", "manifests", "compaction"),
)
_NAMES = {"min_time_retained": "min_time_retained_ms"}
"""Keys whose field of a `FleetRule` has another name."""
_COUNTS = {
    "snapshot.num-retained.min": "retain_min",
    "snapshot.num-retained.max": "retain_max",
    "snapshot.expire.limit": "limit",
}
_TIME = "snapshot.time-retained"
_STATING = ("snapshot.num-retained.min", "snapshot.num-retained.max", _TIME)
"""A retention must have one of these keys, as a table's schema must."""
_EXPIRATION_TIME = "partition.expiration-time"
_PARTITION_SPANS = (_EXPIRATION_TIME, "partition.expiration-check-interval")
_PARTITION_COUNTS = ("partition.expiration-max-num", "partition.expiration-batch-size")
_PARTITION_WORDS = (*("partition.expiration-strategy", "partition.timestamp-formatter", "partition.timestamp-pattern"),)
_TIMES = {"partition_idle_time": "idle_ms", "level_0_age": "level_0_ms"}
_SIZES = {"max_size": "max_bytes", "max_partition_size": "max_partition_bytes"}
_SOLE = "sole_compactor"
"""Keys of `compaction`, and fields of `CompactionRules`."""
_MERGE_MIN_COUNT, _FULL_SIZE = "manifest.merge-min-count", "manifest.full-compaction-threshold-size"
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
"""How a location begins. Any other text would be a path below the working directory, where no table is."""
_UPPER_BUCKET = re.compile(r"(?i:s3[an]?)://[^/]*[A-Z]")
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
    document = document_of(body, location)
    check_keys(document, _DOCUMENT_KEYS, location, "")
    version = document.get("version")
    if type(version) is not int or version != POLICY_FORMAT_VERSION:
        refuse(location, "version", str(POLICY_FORMAT_VERSION), version)
    entries = document.get("rules")
    if not isinstance(entries, list):
        refuse(location, "rules", "an array of rules", entries)
    rules: list[FleetRule] = []
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries):
        rule = _Rule(entry, location, f"rules[{number}]", spell).read()
        if rule.tables in seen:
            refuse(location, f"rules[{number}].tables", f"another folder than rules[{seen[rule.tables]}]", rule.tables)
        seen[rule.tables] = number
        rules.append(rule)
    pause = read_pause(document["pause"], location, "pause") if "pause" in document else False
    control = control_of(document["control"], location) if "control" in document else None
    return FleetPolicy(location, tuple(rules), pause=pause, control=control)


class _Rule(RuleValues):
    """One entry of `rules`, read key by key."""

    def __init__(self, entry: object, location: str, at: str, spell: Callable[[str], str]) -> None:
        super().__init__(location, at)
        self._spell = spell
        if not isinstance(entry, dict):
            refuse(location, at, "an object", entry)
        check_keys(entry, _RULE_KEYS, location, f"{at}.")
        self._entry: dict[str, object] = entry

    def read(self) -> FleetRule:
        tables = self._folder("tables", self._entry.get("tables"))
        readers: Mapping[str, Callable[[str, object], object]] = {
            "mode": self._mode,
            "pause": lambda key, value: read_pause(value, self._location, f"{self._at}.{key}"),
            "min_snapshots": self._positive,
            "min_time_retained": self._span,
            "protect_commit_users": self._users,
            "retention": self._retention,
            "time_zone": self._time_zone,
            "tags": self._tags,
            "external_roots": self._external_roots,
            "catalog_type": self._catalog_type,
            "catalog_lock": self._flag,
            "partitions": self._partitions,
            "manifests": self._manifests,
            "compaction": self._compaction,
        }
        found = {key: read(key, self._entry[key]) for key, read in readers.items() if key in self._entry}
        stated: dict[str, Any] = {_NAMES.get(key, key): value for key, value in found.items()}
        return FleetRule(tables, **stated, deciders=dict.fromkeys(stated, tables))

    def _users(self, key: str, value: object) -> tuple[str, ...]:
        return self._each(key, value, "commit users", "commit user", self._user)

    def _external_roots(self, key: str, value: object) -> tuple[str, ...]:
        found = enumerate(self._array(key, value, "locations"))
        return tuple(dict.fromkeys(self._folder(f"{key}[{number}]", text) for number, text in found))

    def _folder(self, key: str, text: object) -> str:
        """Read a location. A rule of a location that is no table's would be lost, and nobody would notice."""
        expected = "an absolute location such as s3://bucket/folder or /folder"
        if not isinstance(text, str):
            self._refuse(key, expected, text)
        if any(each in text for each in "*?[{"):
            self._refuse(key, "a folder (it covers all tables at or below it), not a pattern", text)
        if not _ABSOLUTE.match(text) or not text.isprintable() or text.rstrip("/").endswith(" "):
            self._refuse(key, f"{expected}, without blanks around it and characters that nobody sees", text)
        if _UPPER_BUCKET.match(text):
            self._refuse(key, f"{expected}; a bucket has a name in lower case", text)
        return self._parsed(key, expected, text, lambda text, _: self._spell(text))

    def _mode(self, key: str, mode: object) -> Mode:
        if mode == "delete":
            return "delete"
        if mode != "observe":
            self._refuse(key, '"observe" or "delete"', mode)
        return "observe"

    def _flag(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            self._refuse(key, "true or false", value)
        return value

    def _user(self, key: str, user: object) -> str:
        if not isinstance(user, str) or not user.strip():
            self._refuse(key, "commit users as texts", user)
        return user

    def _retention(self, at: str, value: object) -> SnapshotRetention | None:
        if not isinstance(value, dict):
            self._refuse(at, "an object of table options", value)
        check_keys(value, (*_COUNTS, _TIME), self._location, f"{self._at}.{at}.")
        if not value:
            return None  # explicitly none, whatever the rule of the folder around it says
        if not any(key in value for key in _STATING):
            self._refuse(at, f"one of {', '.join(_STATING)}", value)
        stated = {name: self._count(f"{at}.{key}", value[key]) for key, name in _COUNTS.items() if key in value}
        if _TIME in value:
            stated["time_retained_ms"] = self._duration(f"{at}.{_TIME}", value[_TIME])
        retention = replace(SnapshotRetention(), **stated)
        try:
            retention.check()
        except RefusedError as error:
            raise UsageError(f"policy {self._location}: {self._at}.{at}: {error}", code="bad_policy") from error
        return retention

    def _catalog_type(self, key: str, value: object) -> CatalogType:
        found = next((each for each in CATALOG_TYPES if each == value), None)
        if found is None:
            self._refuse(key, f"one of {', '.join(CATALOG_TYPES)}", value)
        return found

    def _partitions(self, at: str, value: object) -> Mapping[str, str]:
        """Read the options of partition expiry, as texts. A duration needs its unit, or a slip would drop partitions.

        The strategy, the formatter and the pattern are checked against each table's partition keys when they are used.
        """
        if not isinstance(value, dict):
            self._refuse(at, "an object of table options", value)
        known = (*_PARTITION_SPANS, *_PARTITION_COUNTS, *_PARTITION_WORDS)
        check_keys(value, known, self._location, f"{self._at}.{at}.")
        if value and _EXPIRATION_TIME not in value:
            self._refuse(at, _EXPIRATION_TIME, value)
        for key in _PARTITION_SPANS:
            if key in value and self._duration(f"{at}.{key}", value[key]) == 0 and key == _EXPIRATION_TIME:
                self._refuse(f"{at}.{key}", "a duration of at least 1 ms", value[key])
        for key in _PARTITION_COUNTS:
            if key in value and self._count(f"{at}.{key}", value[key]) < 1:
                self._refuse(f"{at}.{key}", "a whole number, at least 1", value[key])
        for key in _PARTITION_WORDS:
            if key in value and not (isinstance(value[key], str) and value[key].strip()):
                self._refuse(f"{at}.{key}", "a text", value[key])
        return {key: str(each) for key, each in value.items()}

    def _manifests(self, at: str, value: object) -> Mapping[str, str] | Literal[False]:
        """Read the options that say when manifests are compacted, as texts. A size needs its unit, as a duration does.

        A threshold of 1 would be exceeded by every second commit.
        """
        if value is False:
            return False
        if not isinstance(value, dict):
            self._refuse(at, "an object of table options, or false", value)
        check_keys(value, (_MERGE_MIN_COUNT, _FULL_SIZE), self._location, f"{self._at}.{at}.")
        count, size = value.get(_MERGE_MIN_COUNT), value.get(_FULL_SIZE)
        if _MERGE_MIN_COUNT in value and self._count(f"{at}.{_MERGE_MIN_COUNT}", count) < 2:
            self._refuse(f"{at}.{_MERGE_MIN_COUNT}", "a whole number, at least 2", count)
        if _FULL_SIZE in value:
            self._size(f"{at}.{_FULL_SIZE}", size)
        return {key: str(each) for key, each in value.items()}

    def _compaction(self, at: str, value: object) -> CompactionRules | Literal[False] | None:
        """Read which data files passes compact. Nobody compacts a partition unawares into which others write."""
        if value is False:
            return False
        if not isinstance(value, dict):
            self._refuse(at, f"an object with {' or '.join(_TIMES)}, or false", value)
        check_keys(value, (*_TIMES, _SOLE, *_SIZES), self._location, f"{self._at}.{at}.")
        if not value:
            return None
        if not _TIMES.keys() & value.keys():
            self._refuse(at, " or ".join(_TIMES), value)
        times = {name: self._span(f"{at}.{key}", value[key]) for key, name in _TIMES.items() if key in value}
        sizes = {name: self._size(f"{at}.{key}", value[key]) for key, name in _SIZES.items() if key in value}
        return CompactionRules(**times, **sizes, sole_compactor=self._flag(f"{at}.{_SOLE}", value.get(_SOLE, False)))

    def _time_zone(self, key: str, text: object) -> str:
        expected = "a time zone such as Europe/Berlin, UTC or +08:00"
        if not isinstance(text, str):
            self._refuse(key, expected, text)
        self._parsed(key, expected, text, lambda text, _: parse_zone(text, key))
        return text

    def _tags(self, key: str, value: object) -> tuple[KeepRules, ...]:
        rules: list[KeepRules] = []
        for number, entry in enumerate(self._array(key, value, "rules")):
            at = f"{key}[{number}]"
            if not isinstance(entry, dict):
                self._refuse(at, "an object", entry)
            rule = self._keep_rules(at, entry)
            if any(rule.pattern == other.pattern for other in rules):
                self._refuse(f"{at}.pattern", "each pattern once", rule.pattern)
            rules.append(rule)
        return tuple(rules)

    def _keep_rules(self, at: str, entry: dict[str, object]) -> KeepRules:
        check_keys(entry, ("pattern", *_KEEP_KEYS), self._location, f"{self._at}.{at}.")
        pattern = self._pattern(f"{at}.pattern", entry.get("pattern"))
        if not any(key in entry for key in _KEEP_KEYS):
            # Without any rule, every tag that matches the pattern would be deleted.
            self._refuse(at, f"one of {', '.join(_KEEP_KEYS)}", entry)
        counts = {
            key.removeprefix("keep_"): self._positive(f"{at}.{key}", entry[key]) for key in _KEEP_COUNTS if key in entry
        }
        within_ms = self._span(f"{at}.keep_within", entry["keep_within"]) if "keep_within" in entry else None
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
