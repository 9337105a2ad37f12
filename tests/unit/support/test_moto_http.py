"""Moto answers with the same bytes, only sooner."""

import copy
from urllib.request import Request, urlopen

import pytest
from moto.core.serialize import BaseXMLSerializer
from moto.s3 import models

from tests.support import moto_http
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint, seed_moto, versioned_bucket

SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request"}


def listed(bucket: str, asked: str) -> bytes:
    with urlopen(Request(f"{moto_endpoint()}/{bucket}?{asked}", headers=SIGNED)) as answer:
        found: bytes = answer.read()
    return found


@pytest.mark.parametrize(
    "asked", ["", "prefix=x/&encoding-type=url", "prefix=none", "delimiter=/", "max-keys=3", "fetch-owner=true"]
)
def test_listings_are_as_moto_writes_them(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = fresh_bucket()
    seed_moto(bucket, ["a", "b/1", "b/2"])
    moto_client().put_object(Bucket=bucket, Key="x/ä &<>", Body=b"with a checksum")
    quick = listed(bucket, f"list-type=2&{asked}")
    monkeypatch.setattr(BaseXMLSerializer, "_serialize_type_list", moto_http.general)
    assert listed(bucket, f"list-type=2&{asked}") == quick


@pytest.mark.parametrize("asked", ["", "&prefix=b", "&max-keys=2"])
def test_versions_are_as_moto_lists_them(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, client = versioned_bucket(), moto_client()
    for key in ("a", "b", "a", "c"):
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    client.delete_object(Bucket=bucket, Key="b")
    quick = [listed(bucket, f"versions{asked}") for _ in range(2)]
    monkeypatch.setattr(models, "copy", copy)
    assert [listed(bucket, f"versions{asked}")] * 2 == quick
    assert client.get_object(Bucket=bucket, Key="a")["Body"].read() == b"a"
