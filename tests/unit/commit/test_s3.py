"""Commits over HTTP: moto keeps the objects, and a gate in front of it answers what a test tells it to."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import create_backend_app

from lakesweep.errors import RefusedError
from lakesweep.storage.aws_client import make_client
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.store import S3Store
from tests.support.commit_scene import Acting, Scene
from tests.support.fault_s3 import make_bucket
from tests.support.moto_http import serve

Answer = tuple[int, str]
_REASONS = {409: "Conflict", 500: "Internal Server Error", 501: "Not Implemented", 503: "Slow Down"}


class Gate:
    """Stands before moto. `act` sees every put of a snapshot."""

    def __init__(self) -> None:
        self.app = create_backend_app("s3")
        self.act: Callable[[int, Callable[[], None]], Answer | None] = lambda number, apply: None
        self.puts = 0
        self.ignores_conditions = False

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if self.ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if environ["REQUEST_METHOD"] != "PUT" or "/snapshot/snapshot-" not in environ["PATH_INFO"]:
            return self.app(environ, start)
        self.puts += 1
        answered: list[Any] = []

        def apply() -> None:
            list(self.app(environ, lambda status, headers, *_: answered.append(status)))

        answer = self.act(self.puts, apply)
        if answer is None:
            return self.app(environ, start)
        if not answered:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, code = answer
        body = f"<Error><Code>{code}</Code><Message>gate: {code}</Message></Error>".encode()
        start(f"{status} {_REASONS[status]}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


@functools.cache
def served() -> tuple[Gate, Any]:
    gate = Gate()
    session = boto3.Session("testing", "testing", region_name="us-east-1")
    return gate, make_client(serve(gate), session=session, attempts=2)


@pytest.fixture
def gate() -> Gate:
    gate, _ = served()
    gate.act, gate.puts, gate.ignores_conditions = (lambda number, apply: None), 0, False
    return gate


def scene_on_s3(counter: RequestCounter | None = None) -> Scene:
    _, client = served()
    bucket = make_bucket()
    scene = Scene(S3Store(bucket, "t", client, counter), S3Store(bucket, "control", client, counter))
    served()[0].puts = 0
    return scene


def test_requests_of_a_commit(gate: Gate) -> None:
    """The first one also probes the store, and asks the control location for the time."""
    counter = RequestCounter()
    scene = scene_on_s3(counter)
    counts = []
    for _ in range(2):
        before = counter.snapshot()
        ended = scene.commit()
        counts.append({kind: count - before[kind] for kind, count in counter.snapshot().items()})
        assert (ended.status, ended.warnings) == ("committed", ())
    # Read: the lease, the schema, the base, the base again; and the test reads a list. Written: a manifest, two
    # lists, the snapshot, its hint, and the lease twice.
    assert counts[1] == {"get": 5, "head": 0, "list": 5, "put": 7, "delete": 0}
    assert counts[0] == counts[1] | {"list": 6, "put": 8}
    assert scene.table.read("snapshot/LATEST").data == b"5"


def test_an_object_that_was_written_without_an_answer_is_ours(gate: Gate) -> None:
    scene = scene_on_s3()

    def act(number: int, apply: Callable[[], None]) -> Answer | None:
        if number > 1:
            return None
        apply()
        return 500, "InternalError"

    gate.act = act
    ended = scene.commit()
    assert (ended.status, ended.snapshot_id, ended.attempts, ended.replaced) == ("committed", 4, 1, 0)
    assert scene.snapshot(4).uuid == ended.uuid


@pytest.mark.parametrize("answer", [(409, "ConditionalRequestConflict"), (500, "InternalError"), (503, "SlowDown")])
def test_storms(gate: Gate, answer: Answer) -> None:
    scene = scene_on_s3()
    gate.act = lambda number, apply: answer if number < 3 else None
    ended = scene.commit()
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 4, 1)


def test_a_foreign_snapshot_is_kept(gate: Gate) -> None:
    scene = scene_on_s3()
    written: list[str] = []
    ended = scene.commit(Acting("table put snapshot/snapshot-4", lambda: written.append(scene.foreign())))
    assert (ended.status, ended.snapshot_id, ended.attempts) == ("committed", 5, 2)
    assert scene.snapshot(4).uuid == written[0]


def test_a_server_that_says_that_it_knows_no_condition(gate: Gate) -> None:
    scene = scene_on_s3()
    gate.act = lambda number, apply: (501, "NotImplemented")
    with pytest.raises(RefusedError) as caught:
        scene.commit()
    assert caught.value.code == "no_conditional_put"
    assert scene.ids() == [1, 2, 3]


def test_a_server_that_ignores_the_condition(gate: Gate) -> None:
    scene = scene_on_s3()
    gate.ignores_conditions = True
    with pytest.raises(RefusedError) as caught:
        scene.commit()
    assert caught.value.code == "no_conditional_put"
    assert (scene.ids(), gate.puts) == ([1, 2, 3], 0)


def test_a_base_that_vanished_takes_the_snapshot_with_it(gate: Gate) -> None:
    """By the ETag of its own snapshot."""
    scene = scene_on_s3()
    ended = scene.commit(Acting("table put snapshot/snapshot-4", lambda: scene.remove(3)))
    assert (ended.status, scene.ids()) == ("base_vanished", [1, 2])
