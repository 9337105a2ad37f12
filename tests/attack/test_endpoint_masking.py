"""A password in the URL of an endpoint is printed nowhere."""

from pathlib import Path

import pytest

from lakesweep.cli.main import main
from lakesweep.errors import StorageError, masked
from lakesweep.storage.aws_client import make_client
from tests.support.s3_server import fresh_bucket

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"http://me:{SECRET}@host:9000/b", "http://***@host:9000/b"),
        (f"a https://{SECRET}@host, b", "a https://***@host, b"),
        (f"http://me:a/{SECRET}@host", "http://***@host"),
        (f"HTTP://me:{SECRET}?#@host x@y", "HTTP://***@host x@y"),
        (f"amqp://me:{SECRET}@host/p@q", "amqp://***@host/p@q"),
        ("s3://bucket/dt=a@b/file", "s3://bucket/dt=a@b/file"),
        ("file:///data/a@b", "file:///data/a@b"),
        ("me@host", "me@host"),
    ],
)
def test_what_stands_before_the_host_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert str(StorageError(text)) == shown


@pytest.mark.parametrize("command", ["show", "runs", "plans", "maintain", "undo", "remove-orphan-files"])
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("debug", ["0", "1"])
@pytest.mark.parametrize("endpoint", ["http://me:{}@127.0.0.1:1", "me:{}@127.0.0.1:1", "http://me:a/{}@127.0.0.1:1"])
def test_no_command_prints_a_password(
    command: str,
    as_json: bool,
    debug: str,
    endpoint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody answers at the endpoint, or it is no URL."""
    monkeypatch.setenv("LAKESWEEP_DEBUG", debug)
    monkeypatch.setattr("lakesweep.storage.aws_client.MAX_ATTEMPTS", 1)
    monkeypatch.setattr("lakesweep.storage.aws_client.CONNECT_TIMEOUT_S", 1)
    words = [command, f"s3://{fresh_bucket()}/t", *(["20260131T120003Z-5a6b7c8d"] if command == "undo" else [])]
    words += [
        "--control",
        str(tmp_path),
        "--local-control",
        "--endpoint-url",
        endpoint.format(SECRET),
        "--region",
        "us-east-1",
    ]
    code = main([*words, *(["--json"] if as_json else [])])
    printed = capsys.readouterr()
    assert code in (1, 2, 3) or command == "runs", printed
    assert SECRET not in printed.out + printed.err, printed
    assert not list(tmp_path.rglob("*.json")), "no document has it either"


def test_an_endpoint_of_the_environment_is_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is no URL."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"me:{SECRET}@127.0.0.1:1")
    monkeypatch.setenv("LAKESWEEP_DEBUG", "1")
    # A process makes one client for equal settings, so no other test may name this region.
    assert main(["show", f"s3://{fresh_bucket()}/t", "--region", "eu-west-3"]) != 0
    printed = capsys.readouterr()
    assert "***@127.0.0.1:1" in printed.err
    assert SECRET not in printed.out + printed.err


def test_the_next_command_and_stored_documents_have_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run prints the command that carries its plan out, with the endpoint that was given."""
    from tests.support.memory_store import MemoryStore
    from tests.support.table_builder import TableBuilder

    store = MemoryStore("memory://masking/t")
    table = TableBuilder(store, options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for number in range(3):
        table.commit(f"+A{number}")
    monkeypatch.setattr("lakesweep.storage.open.MEMORY_STORES", {"memory://masking/t": lambda: store})
    words = ["--control", str(tmp_path), "--endpoint-url", f"http://me:{SECRET}@127.0.0.1:1"]
    assert main(["expire-snapshots", "memory://masking/t", "--retain-max", "1", "--retain-min", "1", *words]) == 0
    printed = capsys.readouterr()
    assert "***@127.0.0.1:1" in printed.out
    assert SECRET not in printed.out + printed.err
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_client_that_cannot_be_made_names_no_password() -> None:
    with pytest.raises(Exception, match=r"\*\*\*@") as raised:
        make_client(f"me:{SECRET}@host:1", "us-east-1")
    assert SECRET not in str(raised.value)
