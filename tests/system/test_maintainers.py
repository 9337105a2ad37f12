"""Who watches the maintainers: every way to change a table without its lease is noticed."""

import json
from collections.abc import Mapping

import pytest

from lakesweep.control.area import table_key
from tests.support.system.clock import ManualClock
from tests.support.system.embedded_aws import OUTSIDE, Request
from tests.support.system.maintainers import Maintainers

TABLE = "s3://lake/warehouse/sales.db/orders"
KEY = "warehouse/sales.db/orders/bucket-0/data-1.parquet"


class Watched:
    """Maintainers that are shown requests."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.maintainers = Maintainers(self.clock, "lake", "control")
        self._token = 0

    def lease(self, caller: str, seconds: float = 600, table: str = TABLE, token: int = 0, status: int = 200) -> None:
        self._token = token or self._token + 1
        expires_ms = int((self.clock.now() + seconds) * 1000) if seconds else 0
        body = json.dumps({"run_id": "r", "token": self._token, "expires_at_ms": expires_ms}).encode()
        key = f"lakesweep/tables/{table_key(table)}/lease.json"
        self.maintainers.after(Request(1, caller, "PutObject", "control", key, 0.0, {}, body, status))

    def change(
        self, caller: str, operation: str = "DeleteObject", key: str = KEY, asked: Mapping[str, object] | None = None
    ) -> list[str]:
        known = len(self.maintainers.problems)
        answer = self.maintainers.before(Request(2, caller, operation, "lake", key, 0.0, asked or {}))
        assert answer is None, "who watches does not interfere"
        return self.maintainers.problems[known:]


def test_the_holder_may() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    assert watched.change("Expire-1") == []
    assert watched.change("Expire-1", "PutObject", "warehouse/sales.db/orders/snapshot/EARLIEST") == []
    assert watched.change("Expire-1", "GetObject") == []
    assert (watched.maintainers.changes, watched.maintainers.most_at_once) == (2, 1)


@pytest.mark.parametrize("operation", ["DeleteObject", "PutObject"])
def test_no_lease(operation: str) -> None:
    assert len(Watched().change("Expire-1", operation)) == 1


def test_a_writer_needs_none() -> None:
    assert Watched().change(OUTSIDE, "PutObject") == []


def test_the_lease_of_another() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    assert len(watched.change("Expire-2")) == 1


def test_the_lease_of_another_table() -> None:
    watched = Watched()
    watched.lease("Expire-1", table=f"{TABLE}2")
    assert len(watched.change("Expire-1")) == 1


def test_each_key_of_one_request() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    objects = [{"Key": KEY}, {"Key": KEY.replace("orders", "returns")}, {"Key": "warehouse/x"}]
    assert len(watched.change("Expire-1", "DeleteObjects", "", {"Delete": {"Objects": objects}})) == 2


def test_a_lease_that_was_given_back() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    watched.lease("Expire-1", seconds=0)
    assert len(watched.change("Expire-1")) == 1


def test_a_lease_that_is_over() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    watched.clock.advance(599)
    assert watched.change("Expire-1") == []
    watched.clock.advance(1)
    assert len(watched.change("Expire-1")) == 1


def test_two_who_hold_it() -> None:
    """Both were told that they may, and the first does not know better."""
    watched = Watched()
    watched.lease("Expire-1")
    watched.lease("Expire-2")
    assert watched.maintainers.most_at_once == 2


def test_one_after_the_other() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    watched.lease("Expire-1", seconds=0)
    watched.lease("Expire-2")
    watched.lease("Expire-1", status=412)
    watched.clock.advance(720)
    watched.lease("Expire-3")
    assert (watched.maintainers.most_at_once, watched.maintainers.problems) == (1, [])


def test_one_who_was_told_of_another() -> None:
    """A renewal that was refused ends what its holder may believe."""
    watched = Watched()
    watched.lease("Expire-1")
    watched.lease("Expire-1", status=412)
    watched.lease("Expire-2")
    assert watched.maintainers.most_at_once == 1


def test_a_token_that_does_not_grow() -> None:
    watched = Watched()
    watched.lease("Expire-1")
    watched.lease("Expire-2", token=1)
    assert len(watched.maintainers.problems) == 1
