"""What a person reads while S3 does not answer, and how soon a command ends then."""

import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakesweep.api import opening
from lakesweep.errors import StorageError
from lakesweep.storage import aws_client, retries, stops
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.s3 import object_reader, place
from tests.unit.cli.command_line import call

ATTEMPTS = 2


class Silent:
    """A server that accepts connections and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._socket, *self.connections):
            each.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """A silent server, and clients that wait for it for 0.1 s, twice."""
    for module in (aws_client, object_reader):
        monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.1)
    monkeypatch.setattr(retries, "TOLD_AFTER_S", 0)
    clock = SimpleNamespace(sleep=lambda seconds: None)
    monkeypatch.setattr("botocore.endpoint.time", clock)
    monkeypatch.setattr(object_reader, "time", clock)
    for module in (object_reader, place):
        monkeypatch.setattr(module, "MAX_ATTEMPTS", ATTEMPTS)
    monkeypatch.setattr(aws_client, "_CREDENTIAL_TIMEOUT_S", 0.1)
    monkeypatch.setattr(aws_client, "_CREDENTIAL_ATTEMPTS", ATTEMPTS)
    server = Silent()
    yield server
    server.close()


@pytest.mark.parametrize(
    "command", ["show", "remove-orphan-files", "runs", "explain", "maintain", "check", "audit verify"]
)
def test_silence_is_told_and_ends_in_a_sentence(command: str, silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failed attempt is told, and the end says where, how often and how long, and what to check."""
    monkeypatch.setenv("LAKESWEEP_CONTROL", "s3://ops/lakesweep")
    answer = call(*command.split(), "s3://lake/orders", "--endpoint-url", silent.url)
    assert answer.exit_code == 3
    *told, ended = answer.sentences
    failed = r"attempt 1 of 2 failed \(ReadTimeoutError\), trying again"
    sentence = rf"lakesweep: no answer from {silent.url} for \d+ s; {failed}"
    assert told and all(re.fullmatch(sentence, each) for each in told)
    assert re.search(
        rf'Read timeout on endpoint URL: "{silent.url}/\S+" \(tried 2 times in \d+ s\); check the network, a proxy '
        r"\(HTTPS_PROXY\), the region \(--region\) and the endpoint \(--endpoint-url\)$",
        ended,
    )
    assert len(silent.connections) == ATTEMPTS * len(told)
    assert len(told) == 1 or command in ("show", "maintain")  # they list several folders at once


def test_a_silent_sts_is_told_too(silent: Silent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for credentials has the patience of one for a table, and is told in the same words."""
    (tmp_path / "token").write_text("token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/lakesweep")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", silent.url)
    answer = call("show", "s3://lake/orders", "--endpoint-url", "http://127.0.0.1:9", "--json")
    assert answer.exit_code == 3
    assert answer.document["error"]["code"] == "ReadTimeoutError"
    assert re.match(rf"lakesweep: no answer from {silent.url} for \d+ s; attempt 1 of 2 failed", answer.sentences[0])
    assert f'Read timeout on endpoint URL: "{silent.url}/"' in answer.sentences[-1]


def test_no_request_is_repeated_after_a_stop(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that began before Ctrl-C ends with the attempt under way."""
    monkeypatch.setattr(aws_client, "MAX_ATTEMPTS", 5)
    store = open_store("s3://lake/orders", settings=StoreSettings(endpoint_url=silent.url))
    with retries.told(lambda sentence: stops.stop()), pytest.raises(StorageError, match="tried 2 times"):
        next(iter(store.list("")), None)
    assert len(silent.connections) == 2


def test_a_signal_is_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C and SIGTERM end a command, and leave the handlers of the process as they were."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number, exit_code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        count = stops.count
        with monkeypatch.context() as patched:
            patched.setattr(opening, "check_whole", lambda table, number=number: signal.raise_signal(number))
            assert call("show", tmp_path).exit_code == exit_code
        assert stops.count == count + 1
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
