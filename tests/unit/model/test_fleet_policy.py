"""The fleet policy document: what it may say, and what makes all of it invalid."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.fleet_document import parse_fleet_policy
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.partitions.rules import partition_rules
from lakesweep.model.policy import INT_MAX, CompactionRules, FleetRule, KeepRules, SnapshotRetention
from tests.conftest import REPOSITORY

DAY_MS = 86_400_000
PARTITIONS: dict[str, Any] = {
    "partition.expiration-time": "30 d",
    "partition.expiration-strategy": "values-time",
    "partition.expiration-check-interval": "0 s",
    "partition.expiration-max-num": 10,
    "partition.expiration-batch-size": "5",
    "partition.timestamp-formatter": "yyyyMMdd",
    "partition.timestamp-pattern": "$dt",
}


def spell(text: str) -> str:
    if "//nowhere" in text:
        raise UsageError("no such place")
    return text.replace("s3a://", "s3://").rstrip("/")


def parse(document: object) -> FleetPolicy:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_fleet_policy(body, "s3://ops/policy.json", spell)


def parse_rule(**rule: object) -> FleetRule:
    (found,) = parse({"version": 1, "rules": [{"tables": "s3://lake/", **rule}]}).rules
    return found


def test_a_rule_without_words_observes() -> None:
    """Nothing is deleted, raised or replaced by a rule that only names a folder."""
    assert parse_rule() == FleetRule("s3://lake")
    assert (parse_rule().mode, parse_rule().pause) == ("observe", False)


def test_every_word() -> None:
    """All keys of a rule at once."""
    found = parse_rule(
        mode="delete",
        pause=True,
        min_snapshots=20,
        min_time_retained="3 d",
        protect_commit_users=["flink-1", "flink-2"],
        retention={"snapshot.num-retained.min": 5, "snapshot.num-retained.max": "50", "snapshot.expire.limit": 7},
        external_roots=["s3://outside/files", "/data/files"],
        catalog_type="hive",
        catalog_lock=True,
        partitions=PARTITIONS,
        manifests={"manifest.merge-min-count": 100, "manifest.full-compaction-threshold-size": "64 mb"},
    )
    assert found == FleetRule(
        tables="s3://lake",
        mode="delete",
        pause=True,
        min_snapshots=20,
        min_time_retained_ms=3 * DAY_MS,
        protect_commit_users=("flink-1", "flink-2"),
        retention=SnapshotRetention(5, 50, 3_600_000, 7),
        external_roots=("s3://outside/files", "/data/files"),
        catalog_type="hive",
        catalog_lock=True,
        partitions={**PARTITIONS, "partition.expiration-max-num": "10"},
        manifests={"manifest.merge-min-count": "100", "manifest.full-compaction-threshold-size": "64 mb"},
    )
    assert found.floor == SnapshotRetention(20, INT_MAX, 3 * DAY_MS, INT_MAX)


def test_half_a_floor() -> None:
    """A count alone asks for no age, an age alone for one snapshot."""
    assert parse_rule(min_snapshots=3).floor == SnapshotRetention(3, INT_MAX, 0, INT_MAX)
    assert parse_rule(min_time_retained="90 min").floor == SnapshotRetention(1, INT_MAX, 5_400_000, INT_MAX)


@pytest.mark.parametrize(
    ("table", "holds"),
    [
        ("s3://lake/sales.db/orders", "s3://lake/sales.db/orders"),
        ("s3://lake/sales.db/orders/deeper", "s3://lake/sales.db/orders"),
        ("s3://lake/sales.db/orders2", "s3://lake/sales.db"),
        ("s3://lake/sales.db", "s3://lake/sales.db"),
        ("s3://lake/other.db/t", "s3://lake"),
        ("s3://lakes/t", None),
        ("s3://other/t", None),
        ("/data/t", "/"),
    ],
)
def test_the_longest_folder_comes_first(table: str, holds: str | None) -> None:
    """Whole parts of a path count, not letters."""
    folders = ("s3://lake/", "s3a://lake/sales.db/orders", "s3://lake/sales.db")
    rules = [FleetRule("/"), *parse({"version": 1, "rules": [{"tables": folder} for folder in folders]}).rules]
    found = FleetPolicy("p", tuple(rules)).rule_for(table)
    assert (found and found.tables) == holds


def test_the_documented_example_is_valid() -> None:
    """`docs/operations.md` shows a policy that works."""
    text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    policy = parse(example.encode())
    assert len(policy.rules) == 6
    orders = policy.rule_for("s3://lake/sales.db/orders")
    assert orders is not None
    assert orders.floor == SnapshotRetention(20, INT_MAX, 3 * DAY_MS, INT_MAX)
    assert (orders.mode, orders.protect_commit_users) == ("delete", ("orders-ingest",))
    assert orders.catalog_type == "glue"
    visits = policy.rule_for("s3://lake/web.db/visits")
    assert visits is not None
    assert partition_rules(visits.partitions) is not None


LAKE = {
    "tables": "s3://lake/",
    "mode": "delete",
    "pause": True,
    "min_snapshots": 20,
    "min_time_retained": "3 d",
    "protect_commit_users": ["nightly"],
    "retention": {"snapshot.num-retained.max": 50, "snapshot.time-retained": "1 d"},
    "time_zone": "Europe/Berlin",
    "tags": [{"pattern": "20*", "keep_daily": 30}],
    "external_roots": ["s3://outside"],
    "catalog_type": "filesystem",
    "catalog_lock": True,
    "partitions": {"partition.expiration-time": "30 d", "partition.timestamp-formatter": "yyyyMMdd"},
    "manifests": {"manifest.merge-min-count": 100},
    "compaction": {"partition_idle_time": "1 d", "max_partition_size": "8 gb"},
}
EMPTY: dict[str, object] = {
    "pause": False,
    "protect_commit_users": [],
    "retention": {},
    "tags": [],
    "external_roots": [],
    "catalog_lock": False,
    "partitions": {},
    "manifests": {},
    "compaction": {},
}


def merged(*rules: object, table: str = "s3://lake/sales.db/orders") -> FleetRule:
    found = parse({"version": 1, "rules": [*rules]}).rule_for(table)
    assert found is not None
    return found


def test_a_rule_inherits_what_it_does_not_state() -> None:
    """Each field comes from the rule of the longest folder that states it, whatever the order of the document."""
    lake = merged(LAKE)
    orders = {"tables": "s3://lake/sales.db/orders", "min_snapshots": 5}
    sales = {"tables": "s3://lake/sales.db", "mode": "observe", "min_snapshots": 9, "time_zone": "UTC"}
    for rules in ((LAKE, sales, orders), (orders, LAKE, sales)):
        found = merged(*rules)
        assert found == replace(
            lake, tables="s3://lake/sales.db/orders", mode="observe", min_snapshots=5, time_zone="UTC"
        )
        assert found.floor == SnapshotRetention(5, INT_MAX, 3 * DAY_MS, INT_MAX)
        decided = {"mode": "s3://lake/sales.db", "time_zone": "s3://lake/sales.db"}
        assert found.deciders == {**lake.deciders, **decided, "min_snapshots": "s3://lake/sales.db/orders"}
    assert merged(LAKE, sales, orders, table="s3://lake/other.db/t") == lake


def test_an_empty_value_is_a_statement() -> None:
    """It replaces what a folder states by nothing: no pause, no users, no retention, no calendar rules, no roots."""
    found = merged(LAKE, {"tables": "s3://lake/sales.db", **EMPTY})
    assert (found.pause, found.protect_commit_users, found.retention) == (False, (), None)
    assert (found.tags, found.external_roots, found.partitions, found.manifests) == ((), (), {}, {})
    assert (found.catalog_type, found.catalog_lock) == ("filesystem", False)
    assert {field for field, folder in found.deciders.items() if folder == "s3://lake/sales.db"} == EMPTY.keys()
    assert (found.mode, found.time_zone) == ("delete", "Europe/Berlin")


def test_retention_and_calendar_rules_are_inherited_as_one() -> None:
    """A rule that states one number of a retention, or one pattern, takes none of the folder's."""
    own = {
        "retention": {"snapshot.num-retained.min": 1},
        "tags": [{"pattern": "w*", "keep_last": 1}],
        "partitions": {"partition.expiration-time": "7 d"},
        "manifests": {"manifest.full-compaction-threshold-size": "1 gb"},
    }
    found = merged(LAKE, {"tables": "s3://lake/sales.db", **own})
    assert found.retention == SnapshotRetention(retain_min=1)
    assert found.tags == (KeepRules("w*", last=1),)
    assert found.partitions == {"partition.expiration-time": "7 d"}
    assert found.manifests == {"manifest.full-compaction-threshold-size": "1 gb"}


def test_data_files_are_compacted_where_a_rule_says_so() -> None:
    """Inherited as a whole; `{}` is none, and `false` says that nobody wants to hear of it."""
    assert merged(LAKE, {"tables": "s3://lake/sales.db"}).compaction == CompactionRules(DAY_MS, None, 8 << 30)
    own = {"partition_idle_time": "2 d", "max_size": "1 gb"}
    found = merged(LAKE, {"tables": "s3://lake/sales.db", "compaction": own})
    assert found.compaction == CompactionRules(2 * DAY_MS, 1 << 30) and not found.has_sole_compactor
    assert merged(LAKE, {"tables": "s3://lake/sales.db", "compaction": {}}).compaction is None
    assert merged(LAKE, {"tables": "s3://lake/sales.db", "compaction": False}).compaction is False


def test_each_kind_of_tables_has_its_own_time() -> None:
    """A rule that states one time alone lets passes compact the tables of that kind alone."""
    found = parse_rule(compaction={"level_0_age": "10 min", "sole_compactor": True})
    rules = found.compaction
    assert isinstance(rules, CompactionRules) and rules == CompactionRules(level_0_ms=600_000, sole_compactor=True)
    assert (rules.states(has_key=True), rules.states(has_key=False), found.has_sole_compactor) == (True, False, True)
    assert rules.to_json() == {"level_0_age_ms": 600_000, "sole_compactor": True}
    idle = CompactionRules(DAY_MS)
    assert (idle.states(has_key=True), idle.states(has_key=False)) == (False, True)


def test_manifests_may_be_left_alone() -> None:
    """`false` says so, also below a folder that states thresholds; `{}` leaves it to the tables' own."""
    found = merged(LAKE, {"tables": "s3://lake/sales.db", "manifests": False})
    assert found.manifests is False
    assert merged(LAKE, {"tables": "s3://lake/sales.db", "mode": "observe"}).manifests == {
        "manifest.merge-min-count": "100"
    }


def _rules(*rules: object) -> dict[str, object]:
    return {"version": 1, "rules": list(rules)}


BAD: tuple[tuple[Any, str], ...] = (
    ([], "expected a JSON object, found an array of 0 values"),
    (b"{", "expected JSON in UTF-8"),
    (b"\xff", "expected JSON in UTF-8"),
    (b'{"version": 1, "rules": [{"tables": "/a", "pause": true, "pause": false}]}', "found 'pause' twice"),
    ({}, "version: expected 1, found nothing"),
    ({"version": "1", "rules": []}, "version: expected 1, found '1'"),
    ({"version": True, "rules": []}, "version: expected 1, found True"),
    ({"version": 2, "rules": []}, "version: expected 1, found 2"),
    ({"version": 1}, "rules: expected an array of rules, found nothing"),
    ({"version": 1, "rules": {}}, "rules: expected an array of rules, found an object"),
    ({"version": 1, "rules": [], "rule": []}, "expected some of version, pause, rules, control, found rule"),
    (_rules("s3://lake"), "rules[0]: expected an object, found 's3://lake'"),
    (_rules({}), "rules[0].tables: expected an absolute location"),
    (_rules({"tables": "warehouse/"}), "rules[0].tables: expected an absolute location"),
    (_rules({"tables": "s3://nowhere"}), "rules[0].tables: expected an absolute location"),
    *(
        (
            _rules({"tables": f"s3://lake/{glob}"}),
            "rules[0].tables: expected a folder (it covers all tables",
        )
        for glob in ("*", "sales.db/ord?rs", "[ab].db", "{a,b}.db/*")
    ),
    (_rules({"tables": ["s3://lake"]}), "rules[0].tables: expected an absolute location"),
    (_rules({"tables": "/a"}, {"tables": "/a/"}), "rules[1].tables: expected another folder than rules[0]"),
    (_rules({"tables": "/a", "paused": True}), "rules[0].pause, "),
)
BAD_WORDS: tuple[tuple[str, Any, str], ...] = (
    ("mode", "remove", 'expected "observe" or "delete", found \'remove\''),
    ("mode", None, 'expected "observe" or "delete", found nothing'),
    ("pause", "true", "expected true, false or an object with a reason, found 'true'"),
    ("pause", None, "expected true, false or an object with a reason, found nothing"),
    ("min_snapshots", 0, "expected a whole number, at least 1, found 0"),
    ("min_snapshots", "5", "expected a whole number, at least 1, found '5'"),
    ("min_snapshots", True, "expected a whole number, at least 1, found True"),
    ("min_snapshots", 1.5, "expected a whole number, at least 1, found 1.5"),
    ("min_snapshots", INT_MAX + 1, "expected a whole number"),
    ("min_time_retained", 3, "expected a duration with its unit such as 3 d, found 3"),
    ("min_time_retained", "3", "expected a duration with its unit such as 3 d, found '3'"),
    ("min_time_retained", "3 weeks", "expected a duration with its unit"),
    ("min_time_retained", "0 d", "expected a duration of at least 1 ms"),
    ("min_time_retained", "1 ns", "expected a duration"),
    ("min_time_retained", "3 d\n", "expected a duration with its unit"),
    ("retention", {"snapshot.time-retained": "3\0d"}, "expected a duration with its unit"),
    ("retention", {"snapshot.time-retained": "1 \u00b5s"}, "expected a duration with its unit"),
    ("protect_commit_users", "flink", "expected an array of commit users, found 'flink'"),
    ("protect_commit_users", [1], "expected commit users as texts, found 1"),
    ("protect_commit_users", [""], "expected commit users as texts, found ''"),
    ("protect_commit_users", ["a", "a"], "expected each commit user once, found 'a'"),
    ("external_roots", "s3://outside", "expected an array of locations, found 's3://outside'"),
    ("external_roots", ["files"], "expected an absolute location"),
    ("external_roots", [1], "expected an absolute location"),
    ("retention", "1 d", "expected an object of table options, found '1 d'"),
    ("retention", {"snapshot.expire.limit": 5}, "expected one of snapshot.num-retained.min"),
    ("retention", {"tag.num-retained-max": 5}, "rules[0].retention.snapshot.time-retained, found"),
    ("retention", {"snapshot.num-retained.min": 0}, "retain_min is 0"),
    ("retention", {"snapshot.num-retained.max": 5}, "retain_max is 5, retain_min is 10"),
    (
        "retention",
        {"snapshot.num-retained.min": "many"},
        "retention.snapshot.num-retained.min: expected a whole number",
    ),
    ("retention", {"snapshot.num-retained.min": 1.0}, "retention.snapshot.num-retained.min: expected a whole number"),
    (
        "retention",
        {"snapshot.time-retained": "7"},
        "retention.snapshot.time-retained: expected a duration with its unit",
    ),
    ("retention", {"snapshot.time-retained": 7}, "retention.snapshot.time-retained: expected a duration with its unit"),
    ("retention", {"snapshot.num-retained.min": 1, "snapshot.expire.limit": 0}, "max_deletes is 0"),
    ("catalog_type", "Hive", "expected one of filesystem, hive, jdbc, glue, rest, found 'Hive'"),
    ("catalog_type", None, "expected one of filesystem, hive, jdbc, glue, rest, found nothing"),
    ("catalog_lock", "true", "expected true or false, found 'true'"),
    ("partitions", "30 d", "expected an object of table options, found '30 d'"),
    ("partitions", {"snapshot.time-retained": "30 d"}, "rules[0].partitions.partition.timestamp-pattern, found"),
    ("partitions", {"partition.expiration-max-num": 5}, "expected partition.expiration-time"),
    *(
        ("partitions", {"partition.expiration-time": value}, "partition.expiration-time: expected a duration")
        for value in (30, "30", "0 d", "many", None)
    ),
    *(
        ("partitions", {**PARTITIONS, key: value}, f"{key}: expected")
        for key, value in (
            ("partition.expiration-check-interval", "5"),
            ("partition.expiration-max-num", 0),
            ("partition.expiration-batch-size", "-1"),
            ("partition.expiration-strategy", ""),
            ("partition.timestamp-formatter", 8),
            ("partition.timestamp-pattern", None),
        )
    ),
    *(("manifests", value, "expected an object of table options, or false") for value in (True, None, 100, [])),
    *(
        ("compaction", value, "an object with partition_idle_time or level_0_age, or false")
        for value in (True, None, "1 d", [])
    ),
    *(
        ("compaction", value, "expected partition_idle_time or level_0_age")
        for value in ({"max_size": "1 gb"}, {"sole_compactor": True})
    ),
    *(
        ("compaction", {key: value}, f"compaction.{key}: expected a duration")
        for key in ("partition_idle_time", "level_0_age")
        for value in ("1", 86_400_000, "0 s", None)
    ),
    ("compaction", {"level_0_age": "1 h", "sole_compactor": 1}, "compaction.sole_compactor: expected true or false"),
    ("compaction", {"partition_idle_time": "1 d", "max_size": 1}, "compaction.max_size: expected a size with its unit"),
    ("compaction", {"idle_for": "1 d"}, "compaction.partition_idle_time"),
    ("manifests", {"manifest.target-file-size": "8 mb"}, "manifest.full-compaction-threshold-size, found"),
    *(
        ("manifests", {"manifest.merge-min-count": value}, "manifest.merge-min-count: expected a whole number")
        for value in (1, 0, "1", -30, 30.0, None, True)
    ),
    *(
        ("manifests", {"manifest.full-compaction-threshold-size": value}, "expected a size with its unit such as 16 mb")
        for value in (16, "16", "0 mb", "16 d", None)
    ),
)


@pytest.mark.parametrize(
    ("document", "words"), [*BAD, *((_rules({"tables": "/a", key: value}), words) for key, value, words in BAD_WORDS)]
)
def test_a_bad_document_is_invalid_as_a_whole(document: object, words: str) -> None:
    """The sentence says where in which document, what was expected and what was found."""
    with pytest.raises(UsageError) as raised:
        parse(document)
    assert raised.value.code == "bad_policy"
    assert "s3://ops/policy.json" in str(raised.value)
    assert words in str(raised.value)


def test_calendar_rules_and_a_zone() -> None:
    """Every word about tags."""
    found = parse_rule(
        time_zone="Europe/Berlin",
        tags=[
            {
                "pattern": "20*",
                "keep_last": 3,
                "keep_within": "30 d",
                "keep_daily": 30,
                "keep_weekly": 8,
                "keep_monthly": 84,
                "keep_yearly": 7,
                "keep_tags": ["*-12-31", "*-06-30"],
            },
            {"pattern": "daily-*", "keep_last": 1},
        ],
    )
    assert found.time_zone == "Europe/Berlin"
    assert found.tags == (
        KeepRules("20*", 3, 30 * DAY_MS, 30, 8, 84, 7, ("*-12-31", "*-06-30")),
        KeepRules("daily-*", last=1),
    )
    assert (parse_rule().time_zone, parse_rule(tags=[]).tags) == (None, ())


ZONE = "time_zone: expected a time zone such as Europe/Berlin"
BAD_TAGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"time_zone": "Mars/Olympus"}, ZONE + ", UTC or +08:00, found 'Mars/Olympus'"),
    ({"time_zone": "localtime"}, ZONE),
    ({"time_zone": ""}, ZONE),
    ({"time_zone": 8}, ZONE),
    ({"time_zone": None}, ZONE),
    ({"tags": None}, "tags: expected an array of rules, found nothing"),
    ({"tags": {"pattern": "*"}}, "tags: expected an array of rules, found an object"),
    ({"tags": ["*"]}, "tags[0]: expected an object, found '*'"),
    ({"tags": [{}]}, "tags[0].pattern: expected a pattern of tag names"),
    ({"tags": [{"keep_last": 1}]}, "tags[0].pattern: expected a pattern of tag names"),
    ({"tags": [{"pattern": "", "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": " ", "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": ["*"], "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": "a/*", "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": "a\n*", "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": "\ud800*", "keep_last": 1}]}, "tags[0].pattern: expected a pattern"),
    ({"tags": [{"pattern": "*"}]}, "tags[0]: expected one of keep_last, keep_daily"),
    ({"tags": [{"pattern": "*", "keep": 1}]}, "found rules[0].tags[0].keep"),
    ({"tags": [{"pattern": "*", "keep_hourly": 1}]}, "found rules[0].tags[0].keep_hourly"),
    ({"tags": [{"pattern": "*", "keep_last": 0}]}, "tags[0].keep_last: expected a whole number, at least 1, found 0"),
    ({"tags": [{"pattern": "*", "keep_daily": -1}]}, "tags[0].keep_daily: expected a whole number, at least 1"),
    ({"tags": [{"pattern": "*", "keep_weekly": "3"}]}, "tags[0].keep_weekly: expected a whole number, at least 1"),
    ({"tags": [{"pattern": "*", "keep_monthly": True}]}, "tags[0].keep_monthly: expected a whole number, at least 1"),
    ({"tags": [{"pattern": "*", "keep_yearly": 1.5}]}, "tags[0].keep_yearly: expected a whole number, at least 1"),
    ({"tags": [{"pattern": "*", "keep_last": INT_MAX + 1}]}, "tags[0].keep_last: expected a whole number"),
    ({"tags": [{"pattern": "*", "keep_last": None}]}, "tags[0].keep_last: expected a whole number"),
    ({"tags": [{"pattern": "*", "keep_within": 30}]}, "tags[0].keep_within: expected a duration with its unit"),
    ({"tags": [{"pattern": "*", "keep_within": "30"}]}, "tags[0].keep_within: expected a duration with its unit"),
    ({"tags": [{"pattern": "*", "keep_within": "0 d"}]}, "tags[0].keep_within: expected a duration of at least 1 ms"),
    ({"tags": [{"pattern": "*", "keep_tags": "x"}]}, "tags[0].keep_tags: expected an array of patterns"),
    ({"tags": [{"pattern": "*", "keep_tags": []}]}, "tags[0].keep_tags: expected an array of patterns"),
    ({"tags": [{"pattern": "*", "keep_tags": [3]}]}, "tags[0].keep_tags: expected a pattern"),
    ({"tags": [{"pattern": "*", "keep_tags": ["x", "x"]}]}, "tags[0].keep_tags: expected each pattern once"),
    (
        {"tags": [{"pattern": "*", "keep_last": 1}, {"pattern": "*", "keep_last": 2}]},
        "tags[1].pattern: expected each pattern once",
    ),
)


@pytest.mark.parametrize(("rule", "message"), BAD_TAGS)
def test_bad_rules_about_tags(rule: dict[str, Any], message: str) -> None:
    """A slip in a rule that deletes makes all of the policy invalid."""
    with pytest.raises(UsageError) as caught:
        parse_rule(**rule)
    assert (caught.value.code, "s3://ops/policy.json" in str(caught.value)) == ("bad_policy", True)
    assert message in str(caught.value)


LOST = (
    *(" file:///x", " s3://bucket/db2", "s3://b/db2 ", "s3://b/db2 /", "s3://b/db2\n", "s3://b/d\tb2", "s 3://x"),
    *("lake/s3://x", "\u200bs3://lake/x", "s3://lake/\u200bx", "://x", "1:/x", "", " ", "~/x", "s3://Lake/x"),
    *("S3A://laKe/x", "s3://lake/*"),
)


@pytest.mark.parametrize("location", LOST)
def test_a_location_that_covers_no_table_is_refused(location: str) -> None:
    """Its pause or minimum would be lost. The sentence names the key, and shows what nobody sees."""
    entries: tuple[tuple[dict[str, Any], str], ...] = (
        ({"tables": location, "pause": True}, "rules[0].tables: "),
        ({"tables": "/a", "external_roots": ["/b", location]}, "rules[0].external_roots[1]: "),
    )
    for entry, key in entries:
        with pytest.raises(UsageError) as caught:
            parse({"version": 1, "rules": [entry]})
        assert caught.value.code == "bad_policy"
        assert f"policy s3://ops/policy.json: {key}expected a" in str(caught.value)
        assert str(caught.value).endswith(f"found {location!a}")


def test_odd_locations_of_tables_are_accepted() -> None:
    """Blanks inside, other letters and every spelling of a scheme; only a bucket has no upper case."""
    for location in ("s3a://lake/Sales DB/o:1", "S3://lake/Ä", "file:///A b/c", "/a b/s3:/x", "/", "memory://Lake/x"):
        assert parse({"version": 1, "rules": [{"tables": location}]}).rules


def test_the_documented_rules_about_tags_are_valid() -> None:
    """`docs/tags.md` shows calendar rules that work."""
    text = (REPOSITORY / "docs" / "tags.md").read_text(encoding="utf-8")
    match = re.search(r"```json\n(.*?)\n```", text, flags=re.DOTALL)
    assert match is not None
    (found,) = parse(json.loads(match[1])).rules
    assert [rule.pattern for rule in found.tags] == ["20??-??-??"]


CONTROL = (
    ("x", "control: expected an object"),
    ({"retentions": {}}, "expected some of control.retention, found control.retentions"),
    ({"retention": []}, "control.retention: expected an object"),
    ({"retention": {"lease": "1 d"}}, "found control.retention.lease"),
    ({"retention": {"plans": 30}}, "control.retention.plans: expected a duration with its unit"),
    ({"retention": {"plans": "30"}}, "control.retention.plans: expected a duration with its unit"),
    ({"retention": {"plans": "0 d"}}, "control.retention.plans: expected a duration of at least 1 ms"),
    ({"retention": {"plans": "23 d"}}, "control.retention.plans: expected at least 24 d, or null: until then a queued"),
    ({"retention": {"scans": "6 d"}}, "control.retention.scans: expected at least 7 d, or null"),
    ({"retention": {"caches": "39 d"}}, "control.retention.caches: expected at least 40 d, or null"),
    ({"retention": {"quarantine": "39 d"}}, "control.retention.quarantine: expected at least 40 d, or null"),
    ({"retention": {"reports": "80 d"}}, "control.retention.reports: expected at least the time of plans, or null"),
    ({"retention": {"plans": None}}, "control.retention.reports: expected at least the time of plans, or null"),
    ({"retention": {"ledger": "399 d"}}, "control.retention.ledger: expected at least the time of reports, or null"),
)


@pytest.mark.parametrize(("control", "words"), CONTROL)
def test_a_time_that_somebody_may_need_is_refused(control: object, words: str) -> None:
    """The sentence says the place, what is expected, and why."""
    with pytest.raises(UsageError) as raised:
        parse({"version": 1, "rules": [], "control": control})
    assert raised.value.code == "bad_policy" and words in str(raised.value)


def test_how_long_own_documents_are_kept() -> None:
    """What is not stated has its default; the ledger is kept for good."""
    day_ms = 86_400_000
    assert parse({"version": 1, "rules": []}).control is None
    assert parse({"version": 1, "rules": [], "control": {}}).control == ControlRetention()
    stated = {"plans": "24 d", "reports": "24 d", "ledger": "24 d", "scans": None}
    found = parse({"version": 1, "rules": [], "control": {"retention": stated}}).control
    assert found is not None
    assert (found.plans_ms, found.reports_ms, found.ledger_ms, found.scans_ms) == (*[24 * day_ms] * 3, None)
    assert found.caches_ms == ControlRetention().caches_ms and ControlRetention().ledger_ms is None
