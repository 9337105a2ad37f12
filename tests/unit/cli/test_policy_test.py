"""`policy test`: what a policy says about one table, who decided it, and what looks wrong in it."""

import json
from pathlib import Path

import pytest

from lakesweep.storage.open import open_store
from tests.support.s3_server import fresh_bucket, moto_settings
from tests.unit.cli.command_line import Answer, call, contents, write_table


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with one table, whose schema states no retention."""
    write_table(tmp_path / "lake" / "orders", commits=2)
    return tmp_path / "lake"


def ask(lake: Path, *rules: dict[str, object], argv: tuple[object, ...] = ("--json",)) -> Answer:
    """Ask about the table; `tables` of a rule is relative to the folder of tables."""
    policy = lake.parent / "policy.json"
    entries = [{**each, "tables": f"{lake}/{each.get('tables', '')}"} for each in rules]
    policy.write_text(json.dumps({"version": 1, "rules": entries}))
    return call("policy", "test", lake / "orders", "--policy", policy, *argv)


THIRTY_DAYS = {"partition.expiration-time": "30 d"}
DAILY = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 5, "snapshot.time-retained": "1 d"}


def test_every_field_has_a_value_and_who_decided_it(lake: Path) -> None:
    """In the document and as text; what no rule states has its default. Nothing changes."""
    rules: tuple[dict[str, object], ...] = (
        {"mode": "delete", "retention": DAILY, "time_zone": "UTC", "tags": [{"pattern": "20*", "keep_daily": 30}]},
        {
            "tables": "orders",
            "min_snapshots": 3,
            "protect_commit_users": ["flink"],
            "time_zone": "Europe/Berlin",
            "catalog_type": "glue",
            "partitions": THIRTY_DAYS,
            "manifests": {"manifest.merge-min-count": 100},
            "compaction": {"partition_idle_time": "1 d", "max_size": "1 gb"},
        },
    )
    before = contents(lake)
    answer = ask(lake, *rules)
    document, own = answer.document, f"{lake}/orders"
    assert (answer.exit_code, answer.messages, contents(lake)) == (0, "", before)
    assert {each["field"]: (each["value"], each["rule"]) for each in document["policy"]["fields"]} == {
        "mode": ("delete", str(lake)),
        "retention": ({"retain_min": 2, "retain_max": 5, "time_retained_ms": 86_400_000, "max_deletes": 50}, str(lake)),
        "tags": ([{"pattern": "20*", "keep_daily": 30}], str(lake)),
        "min_snapshots": (3, own),
        "protect_commit_users": (["flink"], own),
        "time_zone": ("Europe/Berlin", own),
        "catalog_type": ("glue", own),
        "partitions": (THIRTY_DAYS, own),
        "manifests": ({"manifest.merge-min-count": "100"}, own),
        "compaction": ({"partition_idle_ms": 86_400_000, "max_bytes": 1 << 30}, own),
    }
    assert document["defaults"] == {
        "pause": False,
        "min_time_retained_ms": 0,
        "external_roots": None,
        "catalog_lock": False,
    }
    assert document["rules"] == [
        {"tables": str(lake), "decides": ["mode", "retention", "tags"], "overridden": ["time_zone"]},
        {
            "tables": own,
            "decides": [
                "min_snapshots",
                "protect_commit_users",
                "time_zone",
                "catalog_type",
                "partitions",
                "manifests",
                "compaction",
            ],
            "overridden": [],
        },
    ]
    assert (document["retention_from"], document["means"]) == ("policy", "a pass deletes what its plans say")
    printed = ask(lake, *rules, argv=()).printed
    for line in (
        f"policy     tags 20* (keep_daily 30) (rule for {lake})",
        "default    external_roots none",
        "default    catalog_lock false",
        f"policy     partitions partition.expiration-time 30 d (rule for {own})",
        f"policy     manifests manifest.merge-min-count 100 (rule for {own})",
        f"(stated by the policy for {lake}), and at least the policy's minimums",
        f"rule       {lake} decides mode, retention, tags; overridden: time_zone",
    ):
        assert line in printed


@pytest.mark.parametrize(
    ("rules", "treatment"),
    [((), "observe"), (({"mode": "observe"},), "observe"), (({"mode": "delete", "pause": True},), "paused")],
)
def test_what_the_policy_means(lake: Path, rules: tuple[dict[str, object], ...], treatment: str) -> None:
    """The treatment is that of a pass."""
    document = ask(lake, *rules).document
    assert document["policy"]["treatment"] == treatment
    assert document["means"].startswith({"observe": "a pass plans, and", "paused": "no pass runs"}[treatment])
    assert document["warnings"] == [
        "neither the schema nor the policy states a retention, so no snapshot expires in a pass"
    ]


@pytest.mark.parametrize(
    ("folder", "table", "warning"),
    [
        ({"pause": True}, {"pause": False}, "the rule for {own} lifts the pause of {lake}"),
        (
            {"min_snapshots": 20},
            {"min_snapshots": 5},
            "the rule for {own} lowers min_snapshots of {lake} from 20 to 5",
        ),
        (
            {"min_time_retained": "3 d"},
            {"min_time_retained": "1 h"},
            "the rule for {own} lowers min_time_retained of {lake} from 3 d to 1 h",
        ),
        (
            {"protect_commit_users": ["a", "b"]},
            {"protect_commit_users": ["b"]},
            "the rule for {own} does not protect commit user a, which {lake} protects",
        ),
        (
            {"min_snapshots": 20},
            {"mode": "delete"},
            "the retention for {lake} keeps at most 5 snapshots, and min_snapshots for {lake} at least 20: the minimum "
            "holds",
        ),
        (
            {"min_time_retained": "3 d"},
            {"mode": "delete"},
            "the retention for {lake} keeps snapshots for 1 d, and min_time_retained for {lake} for 3 d: the longer "
            "time holds",
        ),
        ({"mode": "delete"}, {}, "the rule for {own} states nothing"),
        (
            {"tags": [{"pattern": "20*", "keep_last": 1}]},
            {"mode": "delete"},
            "the rule for {lake} has calendar rules, and no rule states a time_zone",
        ),
        (
            {"partitions": {"partition.expiration-time": "30 d"}},
            {"mode": "delete"},
            "the rule for {lake} lets partitions expire, and no rule states a catalog_type: none does",
        ),
        (
            {"partitions": {"partition.expiration-time": "30 d"}, "catalog_type": "rest"},
            {"mode": "delete"},
            "the rule for {lake} lets partitions expire, and that for {lake} states the catalog_type rest: none does",
        ),
        (
            {"catalog_lock": True},
            {"mode": "delete"},
            "the rule for {lake} states a catalog_lock, and no rule a catalog_type: nothing is committed",
        ),
        (
            {"manifests": {"manifest.merge-min-count": 100}},
            {"mode": "delete"},
            "the rule for {lake} has manifests compacted, and no rule states a catalog_type: passes compact none",
        ),
        (
            {"compaction": {"partition_idle_time": "1 d"}},
            {"mode": "delete"},
            "the rule for {lake} has data files compacted, and no rule states a catalog_type: passes compact none",
        ),
        (
            {"catalog_type": "hive", "catalog_lock": True},
            {"catalog_type": "filesystem"},
            "the rule for {own} states a catalog_type, and inherits the lock of {lake}",
        ),
    ],
)
def test_rules_that_contradict_or_weaken_each_other(
    lake: Path, folder: dict[str, object], table: dict[str, object], warning: str
) -> None:
    """Each has a warning that names both; the exit code stays 0."""
    answer = ask(lake, {"retention": DAILY, **folder}, {"tables": "orders", **table})
    assert answer.exit_code == 0
    assert warning.format(lake=lake, own=f"{lake}/orders") in answer.document["warnings"]
    assert f"lakesweep: warning: {warning.format(lake=lake, own=f'{lake}/orders')}" in answer.sentences


def test_folders_that_do_not_exist(lake: Path) -> None:
    """A typo in a rule is named; a folder with another table is not."""
    write_table(lake / "returns", commits=1)
    rules: list[dict[str, object]] = [{"tables": name, "pause": True} for name in ("ordres", "returns")]
    found = ask(lake, {"retention": DAILY}, *rules).document["warnings"]
    assert found == [f"a rule names {lake}/ordres, and nothing lies there"]


def test_a_local_folder_that_cannot_be_read(lake: Path) -> None:
    """It is not taken as absent: here a link that leads to itself."""
    (lake / "secret").symlink_to("secret")
    (warning,) = ask(lake, {"retention": DAILY}, {"tables": "secret", "pause": True}).document["warnings"]
    assert warning.startswith(f"whether something lies at {lake}/secret, which a rule names, could not be found out: ")


def test_rules_for_tables_on_s3(lake: Path) -> None:
    """An empty prefix is absent, a bucket that does not exist cannot be looked at, and a full one is fine."""
    bucket, settings = fresh_bucket(), moto_settings()
    open_store(f"s3://{bucket}", settings=settings).put("sales.db/orders/schema/schema-0", b"{}")
    places = [f"s3://{bucket}/sales.db/", f"s3://{bucket}/slaes.db/", "s3://no-such-bucket-here/sales.db/"]
    policy = lake.parent / "policy.json"
    entries = [{"tables": f"{lake}", "retention": DAILY}, *({"tables": each, "pause": True} for each in places)]
    policy.write_text(json.dumps({"version": 1, "rules": entries}))
    argv = ("--endpoint-url", settings.endpoint_url, "--region", "us-east-1", "--json")
    absent, unknown = call("policy", "test", lake / "orders", "--policy", policy, *argv).document["warnings"]
    assert absent == f"a rule names s3://{bucket}/slaes.db, and nothing lies there"
    assert unknown.startswith("whether something lies at s3://no-such-bucket-here/sales.db, which a rule names, could")


def test_without_a_policy_or_a_table(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2: no policy is given, or it is invalid; 3: no table is there. One sentence each."""
    none = call("policy", "test", lake / "orders", "--json")
    assert (none.exit_code, none.document["error"]["code"], len(none.sentences)) == (2, "bad_policy", 1)
    assert "no fleet policy is given; expected --policy LOCATION or $LAKESWEEP_POLICY" in none.messages
    invalid = ask(lake, {"min_time_retained": "3"})
    assert (invalid.exit_code, invalid.document["error"]["code"], len(invalid.sentences)) == (2, "bad_policy", 1)
    ask(lake, {"mode": "delete"})
    monkeypatch.setenv("LAKESWEEP_POLICY", str(lake.parent / "policy.json"))
    assert call("policy", "test", lake / "orders").exit_code == 0
    absent = call("policy", "test", lake / "ordres", "--json")
    assert (absent.exit_code, absent.document["error"]["code"], len(absent.sentences)) == (3, "not_a_table", 1)
