"""The environment changes while S3 is open, or has odd words: a run stays with one server and one identity."""

import json
import os
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.connection import connect
from tests.support.raw_s3 import RawS3, http, raw_s3
from tests.support.s3_readers import READERS, outcome_of, reading_by

OBJECT = http(200, b"body", 'ETag: "e"')
PAGE = http(200, b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>")


def keys_of(server: RawS3) -> list[str]:
    """Return the access key of each request that reached a server."""
    return [
        request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in server.requests
    ]


@pytest.mark.parametrize("reader", READERS)
def test_an_environment_that_changes_between_two_requests(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that reads on one server and lists on another would take the other's files for orphans."""
    with reading_by(reader), raw_s3((OBJECT,), (PAGE,)) as first, raw_s3((PAGE,)) as second:
        monkeypatch.setenv("AWS_ENDPOINT_URL", first.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FIRST")
        store = open_store("s3://b/p")
        assert store.read("k").data == b"body"
        monkeypatch.setenv("AWS_ENDPOINT_URL", second.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "SECOND")
        assert list(store.list("")) == []
        assert (keys_of(first), second.requests) == (["FIRST", "FIRST"], [])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("more", [{}, {"AWS_RETRY_MODE": "standard"}], ids=["plain", "by botocore"])
@pytest.mark.parametrize("before", [{}, {"AWS_SESSION_TOKEN": ""}], ids=["no token", "an empty token"])
@pytest.mark.parametrize("later", [{}, {"AWS_SESSION_TOKEN": "later"}], ids=["stays", "comes"])
def test_keys_without_a_token(reader: str, more: dict[str, str], before: dict[str, str], later: dict[str, str]) -> None:
    """No token is sent with them: neither an empty one, nor one that belongs to other keys."""
    with reading_by(reader), patch.dict(os.environ, {**more, **before}), raw_s3((OBJECT,)) as server:
        store = open_store("s3://b/p", settings=StoreSettings(server.url, "us-east-1"))
        os.environ.update(later)
        assert store.read("k").data == b"body"
    assert "x-amz-security-token" not in server.requests[0].headers


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE", "AWS_DEFAULT_REGION"])
def test_a_server_of_aws_stays_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that is made later has the address that the readers have."""
    config = tmp_path / "config"
    config.write_text("[default]\nendpoint_url = http://127.0.0.1:1\nregion = eu-west-1\n")
    values = {"AWS_CONFIG_FILE": str(config), "AWS_DEFAULT_REGION": "eu-west-1"}
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    connection = connect(None, None, 4)
    monkeypatch.setenv(name, values.get(name, "http://127.0.0.1:1"))
    assert connection.client().meta.endpoint_url == connection.endpoint_url == "https://s3.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"])
def test_a_settings_file_named_with_a_variable(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore replaces the variable, and the file names the server."""
    (tmp_path / "settings").write_text("[default]\nendpoint_url = http://127.0.0.1:1\n")
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    monkeypatch.setenv(name, "$SOME_FOLDER/settings")
    connection = connect(None, None, 4)
    reader: Any = connection.reader("b")
    assert connection.endpoint_url == connection.client().meta.endpoint_url == "http://127.0.0.1:1"
    assert reader._access.url == "http://127.0.0.1:1/b"


@pytest.mark.parametrize("name", ["AWS_CONDITIONAL_PUT", "AWS_DISABLE_TAGGING", "SSL_CERT_FILE"])
def test_a_variable_that_obstore_alone_knows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bad value of it botocore reads, and a request that was never sent is not counted."""
    monkeypatch.setenv(name, "/no such thing")
    with reading_by("obstore"), raw_s3((OBJECT,)) as server:
        outcome = outcome_of(server.url, lambda store: store.read("k"))
    assert (outcome.found, outcome.counted, len(server.requests)) == (b"body", {"get": 1}, 1)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("more", [{}, {"AWS_RETRY_MODE": "standard"}], ids=["plain", "by botocore"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_credentials_with_a_line_break(
    name: str,
    more: dict[str, str],
    reader: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A secret from a file often ends with one. Nobody prints it, nor where obstore panicked."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda seconds: None))
    with reading_by(reader), patch.dict(os.environ, {**more, name: "hush\n"}), raw_s3((OBJECT,)) as server:
        outcome = outcome_of(server.url, lambda store: store.read("k"))
    assert (outcome.found, server.requests) == ("store_settings", [])
    assert "s3://b/p/k: expected credentials of one line" in str(outcome.error)
    assert "hush" not in "".join(traceback.format_exception(outcome.error))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["credentials", "range"])
def test_a_request_that_obstore_does_not_send_is_not_counted(name: str) -> None:
    def none() -> dict[str, str]:
        raise RuntimeError("no credentials")

    counter = RequestCounter()
    with raw_s3((OBJECT,)) as server:
        from lakesweep.storage.s3.object_reader import Access, NotFetched, ObjectReader

        static = {"access_key_id": "A", "secret_access_key": "S"}
        reader = ObjectReader("b", Access(f"{server.url}/b", "us-east-1", none if name == "credentials" else static))
        found = reader.get("k", "s3://b/k", counter, (0, 1 << 65) if name == "range" else None)
    assert found == NotFetched()
    assert (sum(counter.snapshot().values()), server.requests) == (0, [])


def test_renewed_credentials_are_taken_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore keeps credentials until five minutes before they expire; botocore may have shorter ones."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    keys = {"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T"}
    until = datetime.now(UTC) + timedelta(seconds=30)
    (tmp_path / "keys").write_text(json.dumps(keys | {"Expiration": until.isoformat()}))
    (tmp_path / "config").write_text(f"[default]\ncredential_process = cat {tmp_path / 'keys'}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    reader: Any = connect("http://127.0.0.1:1", "us-east-1", 4).reader("b")
    left = reader._access.credentials()["expires_at"] - datetime.now(UTC)
    assert timedelta(minutes=5) < left <= timedelta(minutes=5, seconds=5)
