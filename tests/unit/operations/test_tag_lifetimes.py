"""Until when a tag keeps a file, as `explain` says it."""

import dataclasses
import json
from datetime import datetime, timedelta

import pytest

from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

NOW_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z
MADE = datetime(2027, 1, 15, 8)


def until(name: str = "t", *, rule: dict[str, object] | None = None, ttl_h: float | None = 1, **options: str) -> str:
    store = MemoryStore("memory://bucket/t", clock=lambda: NOW_MS)
    table = TableBuilder(store, options=options)
    table.commit("+A")
    ttl = None if ttl_h is None else timedelta(hours=ttl_h)
    table.tag(name, snapshot=1, ttl=ttl, create_time=MADE)
    table.commit("-A", "+B")
    assert Maintainer(store).expire().status == "done"
    policies = MemoryStore("memory://policies")
    policies.put(
        "policy.json",
        json.dumps(
            {"version": 1, "rules": [{"tables": "memory://bucket/", "mode": "delete", **(rule or {})}]}
        ).encode(),
    )
    context = dataclasses.replace(
        Maintainer(store, open_store=lambda location: policies).table,
        policy=None if rule is None else "memory://policies/policy.json",
    )
    (holder,) = explain_file(context, table.path("A"), ExplainArguments()).held_by
    return holder.until


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {},
            "until 2027-01-16T11:00:00.000+00:00, when its time to live is over (26 h later than in UTC, since no time "
            "zone is declared)",
        ),
        (
            {"rule": {"time_zone": "America/New_York"}},
            "until 2027-01-15T14:00:00.000+00:00, when its time to live is over (in America/New_York)",
        ),
        (
            {"rule": {"time_zone": "Asia/Shanghai"}},
            "until the next expiry of tags, since its time to live is over",
        ),
        ({"ttl_h": None}, "until the tag is deleted: it has no time to live"),
        (
            {"tag.time-expire-enabled": "false"},
            "until the tag is deleted manually, since tag.time-expire-enabled is false",
        ),
        (
            {"ttl_h": None, "rule": {"tags": [{"pattern": "t*", "keep_last": 1}]}},
            "until no calendar rule of the fleet policy keeps the tag",
        ),
        (
            {"rule": {"time_zone": "UTC", "tags": [{"pattern": "t*", "keep_last": 1}]}},
            "until 2027-01-15T09:00:00.000+00:00, when its time to live is over (in UTC), or as long as a calendar "
            "rule of the fleet policy keeps it",
        ),
        (
            {"name": "rollback-to-as-latest-1-x"},
            "until the tag is deleted manually, since it belongs to a rollback",
        ),
        ({"ttl_h": 24 * 365 * 20_000}, "until the tag is deleted: its time to live ends beyond every calendar"),
    ],
)
def test_until(arguments: dict[str, object], says: str) -> None:
    assert until(**arguments) == says  # type: ignore[arg-type]
