"""Two servers of S3 have buckets of one name: their tables share neither lease nor state."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from lakesweep.api.opening import open_table
from lakesweep.cli.options import Place
from lakesweep.control.area import ControlArea, table_key
from lakesweep.control.lease import acquire, read_lease
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter

TABLE = "s3://lake/sales.db/orders"


def opened(control: str, endpoint: str | None) -> Table:
    place = Place(table=TABLE, control=control, local_control=True, endpoint_url=endpoint, region="us-east-1")
    return open_table(place, RequestCounter(), lambda done, total: None)


def area(control: str, endpoint: str | None) -> ControlArea:
    found = opened(control, endpoint).area
    assert found is not None
    return found


def test_two_servers_with_one_local_control_folder_have_two_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))  # nobody answers there
    first, second = (area(str(tmp_path), f"http://{host}:9000") for host in ("127.0.0.1", "127.0.0.2"))
    acquire(first, "20260131T120000Z-aaaaaaaa")
    assert read_lease(second).token == 0
    assert read_lease(area(str(tmp_path), "http://127.0.0.1:9000/")).token == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://minio:9000", "http://MINIO:9000/"),
        ("http://minio", "http://minio:80"),
        ("https://minio", "https://minio:443"),
        ("http://me:secret@minio:9000", "http://minio:9000"),
        (None, "https://s3.eu-central-1.amazonaws.com"),
        (None, "https://bucket.vpce-1a2b3c4d.s3.eu-west-1.vpce.amazonaws.com"),
    ],
)
def test_spellings_of_one_server_meet_at_one_lease(one: str | None, other: str | None, tmp_path: Path) -> None:
    assert area(str(tmp_path), one).prefix == area(str(tmp_path), other).prefix


def test_names_of_before_stay_on_aws_and_where_the_control_location_is_in_the_same_s3(tmp_path: Path) -> None:
    """Nobody who runs Lakesweep there loses a lease, a plan or a ledger."""
    for control, endpoint in ((str(tmp_path), None), ("s3://ops/c", None), ("s3://ops/c", "http://minio:9000")):
        assert area(control, endpoint).prefix == f"tables/{table_key(TABLE)}/"
    assert table_key(TABLE) == "sales.db-orders-c704d44f20ca"
