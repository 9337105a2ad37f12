"""Tags of every kind of snapshot: both write the same bytes, and each reads what the other wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.ours import Answer, operate, run
from tests.differential.tag_steps import with_time, without_time

pytestmark = pytest.mark.differential

COLUMNS = [["id", "INT"], ["v", "STRING"]]
LIVES = {
    "P1D": 86_400 * 10**9,
    "PT0.5S": 500 * 10**6,
    "PT0.001S": 10**6,
    "PT0.000001S": 10**3,
    "PT0.0000001S": 10**2,
    "PT0.000000001S": 1,
    "PT1.000000001S": 10**9 + 1,
    "PT10S": 10**10,
    "P36500D": 36_500 * 86_400 * 10**9,
    "PT123456789.987654321S": 123456789987654321,
}
"""As the engine spells a time to live -> nanoseconds."""
MOMENTS = (
    datetime(2024, 3, 1),
    datetime(2024, 3, 1, 0, 0, 5),
    datetime(2024, 3, 1, 0, 0, 0, 1),
    datetime(2024, 12, 31, 23, 59, 59, 999_999),
    datetime(2024, 2, 29, 10, 0, 0, 500_000),
    datetime(2024, 2, 29, 10, 1),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A table whose newest snapshot has something special."""

    name: str
    options: Mapping[str, str]
    primary_key: bool = False
    write: Mapping[str, Any] | None = None
    then: tuple[str, Mapping[str, Any]] | None = None
    expects: str = "commitKind"
    """A field of the document that makes it what it is."""


KINDS = (
    Kind("plain", {"bucket": "-1"}),
    Kind("changelog", {"bucket": "1", "changelog-producer": "input"}, True, expects="changelogRecordCount"),
    Kind("hash_index", {"bucket": "-1", "dynamic-bucket.target-row-num": "4"}, True, expects="indexManifest"),
    Kind(
        "vectors",
        {"bucket": "-1", "deletion-vectors.enabled": "true"},
        then=("dv_delete", {"n": 1}),
        expects="indexManifest",
    ),
    Kind("statistics", {"bucket": "-1"}, then=("statistics", {}), expects="statistics"),
    Kind("watermark", {"bucket": "-1"}, write={"watermark": 1689681600000}, expects="watermark"),
    Kind("least_watermark", {"bucket": "-1"}, write={"watermark": -(2**63)}, expects="watermark"),
    Kind(
        "properties",
        {"bucket": "-1"},
        write={"properties": {"b": "", "a": '"quoted" \\ / \u2028 \x07 ü 日本 \U0001f600', "": "x"}},
        expects="properties",
    ),
    Kind("row_tracking", {"bucket": "-1", "row-tracking.enabled": "true"}, expects="nextRowId"),
    Kind("identifier", {"bucket": "-1"}, write={"identifier": 7}),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A table of one kind."""

    engine: Engine
    name: str
    control: Path

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Send the engine a command about the table."""
        return self.engine(command, table=self.name, **arguments)

    @property
    def location(self) -> Path:
        """Say where the table lies."""
        return self.engine.location(self.name)

    @property
    def newest(self) -> int:
        """Return the id of the newest snapshot."""
        return int(self("snapshots")["snapshots"][-1][0])

    def ours(self, operation: str, **arguments: object) -> Answer:
        """Let Lakesweep do something to it."""
        answer = operate(self.location, operation, arguments, branch="main", control=self.control)
        assert answer.exit_code == 0, f"{answer.messages} {answer.document}"
        return answer

    def document(self, tag: str) -> str:
        """Return the text of a tag."""
        return (self.location / "tag" / f"tag-{tag}").read_text(encoding="utf-8")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def written(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Written]:
    kind: Kind = request.param
    table = Written(engine, f"documents.{kind.name}", tmp_path / "control")
    table(
        "create",
        columns=COLUMNS,
        primary_keys=["id"] if kind.primary_key else [],
        partition_keys=[],
        options={**RETAIN_EVERYTHING, **kind.options},
    )
    table("write", n=6, seed=1, keys=[0, 20], **(kind.write or {}))
    if kind.then is not None:
        table(kind.then[0], **kind.then[1])
    assert kind.expects in json.loads((table.location / "snapshot" / f"snapshot-{table.newest}").read_text())
    yield table
    table("drop")


def test_the_same_bytes(written: Written) -> None:
    """For every moment and every time to live, those too that no clock and no caller gives."""
    from lakesweep.format.tag import tag_body

    snapshot = written.location / "snapshot" / f"snapshot-{written.newest}"
    body = snapshot.read_bytes()
    assert tag_body(body, snapshot.name, None, None).decode() == written("tag_json", snapshot=written.newest)
    for text, nanoseconds in LIVES.items():
        for moment in MOMENTS:
            expected = written("tag_json", snapshot=written.newest, created=moment.isoformat(), ttl=text)
            assert tag_body(body, snapshot.name, moment, nanoseconds).decode() == expected


@pytest.mark.parametrize(("ttl", "retained"), [(None, None), ("PT1H0.5S", "3600500 ms")])
def test_tags_read_both_ways(written: Written, ttl: str | None, retained: str | None) -> None:
    """The same tag by both; each reads the other's, replaces it and deletes it. A commit deletes tags that are over."""
    expected = written("scan")
    written("tag", name="theirs", ttl=ttl)
    written.ours("create-tag", tag="ours", time_retained=retained, time_zone="UTC")
    assert without_time(written.document("ours")) == without_time(written.document("theirs"))
    assert ("tagCreateTime" in written.document("ours")) == (ttl is not None)

    tags = written("snapshots")["tags"]
    assert tags["ours"]["ttl"] == tags["theirs"]["ttl"] == str(ttl or "null")
    assert tags["ours"]["snapshot"] == tags["theirs"]["snapshot"]
    if ttl is not None:
        made = [datetime.fromisoformat(tags[name]["created"][:26]) for name in ("theirs", "ours")]
        # Ours goes by the clock of the file system, which ticks every few milliseconds.
        assert -0.05 < (made[1] - made[0]).total_seconds() < 60, "ours is made after theirs, in the same zone"
    for name in ("ours", "theirs"):
        assert written("scan", tag=name) == expected

    written("write", n=2, seed=9, keys=[0, 20])
    written("tag", op="replace", name="ours", ttl=ttl)
    written.ours("replace-tag", tag="theirs", time_retained=retained, time_zone="UTC")
    assert without_time(written.document("ours")) == without_time(written.document("theirs"))
    assert written("scan", tag="theirs") == written("scan")

    written.ours("rename-tag", tag="theirs", target_tag="renamed")
    assert sorted(written("tag", op="rename", name="ours", to="ours 2")) == ["ours 2", "renamed"]
    assert list(written("tag", op="delete", name="renamed")) == ["ours 2"]
    written.ours("delete-tag", tag=["ours 2"])
    assert written("snapshots")["tags"] == {}


def test_the_listing_of_tags(engine: Engine, tmp_path: Path) -> None:
    """`lakesweep tags` shows what the engine's system table shows."""
    table = plain(engine, "listing", tmp_path)
    table("tag", name="a")
    table("tag", name="c 3", ttl="PT0.5S")
    table.ours("create-tag", tag="d", time_retained="90 min", time_zone="UTC")
    for number, text in enumerate((*LIVES, "PT0S", "PT-1S", "PT-0.5S", "PT1H1S", "PT59M59.9S")):
        created = MOMENTS[number % len(MOMENTS)].isoformat()
        document = table("tag_json", snapshot=1, created=created, ttl=text)
        (table.location / "tag" / f"tag-n{number}").write_text(document)
    answer = run(["tags", str(table.location), "--json", "--time-zone", "UTC"])
    assert answer.exit_code == 0, answer.messages
    shown = [
        (
            row["name"],
            str(row["snapshot_id"]),
            str(row["schema_id"]),
            datetime.fromtimestamp(row["commit_time_ms"] / 1000, UTC).replace(tzinfo=None),
            str(row["record_count"]),
            None if row["created"] is None else datetime.fromisoformat(row["created"]),
            row["time_retained"],
        )
        for row in answer.document["tags"]
    ]
    assert shown == [
        (
            row["tag_name"],
            row["snapshot_id"],
            row["schema_id"],
            datetime.fromisoformat(row["commit_time"]),
            row["record_count"],
            None if row["create_time"] is None else _rounded_up(row["create_time"]),
            row["time_retained"],
        )
        for row in table("tags")
    ]
    table("drop")


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York", "Asia/Kolkata", "Pacific/Pago_Pago"])
def test_clocks_of_makers(engine: Engine, tmp_path: Path, zone: str) -> None:
    """A tag says no zone. Read in that of its maker it ends when it should; without any it ends later, never before."""
    table = plain(engine, f"clock_{zone.rpartition('/')[2]}", tmp_path)
    engine("clock", name=zone)
    try:
        table("tag", name="theirs", ttl="PT1H")
        table.ours("create-tag", tag="ours", time_retained="1 h", time_zone=zone)
        made = [created_of(table.document(name)) for name in ("theirs", "ours")]
        assert abs(made[1] - made[0]) < timedelta(minutes=1)
        for name, age in (("theirs", timedelta(minutes=59)), ("ours", timedelta(minutes=61))):
            age_tag(table, name, age)
        table.ours("expire-tags")  # nobody says in which zone
        assert sorted(table("snapshots")["tags"]) == ["ours", "theirs"]

        theirs = (table.location / "tag" / "tag-theirs").read_bytes()
        ours = (table.location / "tag" / "tag-ours").read_bytes()
        assert table("expire_tags") == ["ours"]
        (table.location / "tag" / "tag-ours").write_bytes(ours)
        table.ours("expire-tags", time_zone=zone)
        assert list(table("snapshots")["tags"]) == ["theirs"]
        assert (table.location / "tag" / "tag-theirs").read_bytes() == theirs

        age_tag(table, "theirs", timedelta(hours=1 + 26 + 14))  # by any clock on earth
        table.ours("expire-tags")
        assert table("snapshots")["tags"] == {}
    finally:
        engine("clock", name="UTC")
    table("drop")


def created_of(document: str) -> datetime:
    """Read when a tag was made."""
    year, month, day, hour, minute, *rest = json.loads(document)["tagCreateTime"]
    second, nanos = [*rest, 0, 0][:2]
    return datetime(year, month, day, hour, minute, second, nanos // 1000)


def age_tag(table: Written, name: str, age: timedelta) -> None:
    """Let a tag have been made earlier."""
    text = table.document(name)
    (table.location / "tag" / f"tag-{name}").write_text(with_time(text, created_of(text) - age))


def test_success_files(engine: Engine, tmp_path: Path) -> None:
    """They lie at the same place with the same fields, begin anew with each tag, and go with it."""
    options = {**RETAIN_EVERYTHING, "bucket": "-1", "tag.create-success-file": "true"}
    table = Written(engine, "documents.success", tmp_path / "control")
    table("create", columns=COLUMNS, primary_keys=[], partition_keys=[], options=options)
    table("write", n=6, seed=1, keys=[0, 20])
    table("tag", name="theirs")
    table.ours("create-tag", tag="ours")
    folder = table.location / "tag" / "tag-success-file"
    texts = [(folder / f"{name}_SUCCESS").read_text() for name in ("theirs", "ours")]
    assert re.sub(r"\d+", "0", texts[0]) == re.sub(r"\d+", "0", texts[1])
    assert 0 <= json.loads(texts[1])["creationTime"] - json.loads(texts[0])["creationTime"] < 60_000
    table("tag", op="delete", name="ours")
    table.ours("delete-tag", tag=["theirs"])
    assert list(folder.iterdir()) == []
    table("drop")


def _rounded_up(text: str) -> datetime:
    """Read a time of nanoseconds; what is below a microsecond counts as one, so that no tag ends too early."""
    whole, _, fraction = text.partition(".")
    micros = -(-int(f"{fraction:0<9}") // 1000)
    return datetime.fromisoformat(whole) + timedelta(microseconds=micros)


def plain(engine: Engine, name: str, tmp_path: Path) -> Written:
    """Make a table of one commit with nothing special."""
    table = Written(engine, f"documents.{name}", tmp_path / "control")
    table("create", columns=COLUMNS, primary_keys=[], partition_keys=[], options={**RETAIN_EVERYTHING, "bucket": "-1"})
    table("write", n=6, seed=1, keys=[0, 20])
    return table


def test_pypaimon_reads_tags(engine: Engine, tmp_path: Path) -> None:
    """A third reader finds rows, and the time to live, in tags that were made here."""
    from pypaimon import CatalogFactory

    table = plain(engine, "third", tmp_path)
    table.ours("create-tag", tag="first", time_retained="1 d", time_zone="UTC")
    table.ours("create-tag", tag="bare")
    table("write", n=3, seed=2, keys=[0, 20])

    catalog = CatalogFactory.create({"warehouse": str(engine.warehouse)})
    for name in ("first", "bare"):
        tagged = catalog.get_table("documents.third").copy({"scan.tag-name": name})
        builder = tagged.new_read_builder()
        assert builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows == 6
    manager = catalog.get_table("documents.third").tag_manager()
    assert manager.get("first").tag_time_retained.total_seconds() == 86_400
    assert manager.get("bare").tag_time_retained is None
    table("drop")
