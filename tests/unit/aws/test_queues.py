"""Messages in batches: as SQS takes them, and what it does not take is sent again."""

import json
from typing import Any

import pytest

from lakesweep.aws.messages import MAX_BODY_BYTES, OrphanScan, OrphanSweep, OrphanTask, TagSweep, parse_message, to_body
from lakesweep.aws.queues import BATCH_MESSAGES, Queues
from lakesweep.errors import MaintenanceError, StorageError

TABLE = "s3://lake/warehouse/sales.db/orders"


class Client:
    """Takes batches, and refuses what a test says."""

    def __init__(self, refuse: int = 0, *, fault: bool = False, forget: bool = False) -> None:
        self.taken: list[str] = []
        self.batches: list[list[dict[str, str]]] = []
        self._refuse, self._fault, self._forget = refuse, fault, forget

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:
        assert len({entry["Id"] for entry in Entries}) == len(Entries)
        self.batches.append(Entries)
        refused = min(self._refuse, len(Entries))
        self._refuse -= refused
        self.taken += [entry["MessageBody"] for entry in Entries[refused:]]
        failed = [
            {"Id": entry["Id"], "Code": "Throttled", "Message": "later", "SenderFault": self._fault}
            for entry in Entries[:refused]
        ]
        successful = [{"Id": entry["Id"], "MessageId": "m"} for entry in Entries[refused:]]
        return {"Successful": successful} | ({} if self._forget or not failed else {"Failed": failed})


def queues(client: Client, waits: list[float] | None = None) -> Queues:
    sleep = (lambda _: None) if waits is None else waits.append
    return Queues({"orphan": "https://sqs/1/orphan"}, client, sleep)


def tasks(count: int, size: int = 10) -> list[OrphanTask]:
    return [OrphanTask(TABLE, "s1", {"id": f"list-{number}", "x": "y" * size}) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 10, 11, 35])
def test_ten_at_a_time(count: int) -> None:
    client = Client()
    queues(client).orphan_tasks(iter(tasks(count)))
    assert [parse_message(body, "m") for body in client.taken] == tasks(count)
    assert [len(batch) for batch in client.batches] == [BATCH_MESSAGES] * (count // 10) + [count % 10] * (
        count % 10 > 0
    )


def test_a_batch_is_no_larger_than_a_message() -> None:
    client = Client()
    queues(client).orphan_tasks(tasks(9, size=60_000))
    sizes = [sum(len(entry["MessageBody"]) for entry in batch) for batch in client.batches]
    assert [len(batch) for batch in client.batches] == [4, 4, 1]
    assert max(sizes) <= MAX_BODY_BYTES


@pytest.mark.parametrize("forget", [False, True])
def test_what_was_not_taken_is_sent_again(forget: bool) -> None:
    """Whether SQS says that it failed, or says nothing of it."""
    client, waits = Client(refuse=13, forget=forget), list[float]()
    queues(client, waits).orphan_tasks(tasks(12))
    assert sorted(client.taken) == sorted(map(to_body, tasks(12)))
    assert [len(batch) for batch in client.batches] == [10, 10, 3, 2]
    assert len(waits) == 2
    assert waits == sorted(waits)


def test_what_is_never_taken_is_an_error() -> None:
    client, waits = Client(refuse=1000), list[float]()
    with pytest.raises(StorageError, match="10 of 10 messages were not taken: Throttled: later") as raised:
        queues(client, waits).orphan_tasks(tasks(10))
    assert raised.value.code == "not_sent"
    assert len(client.batches) == len(waits) + 1 == 4


def test_a_message_that_is_at_fault_is_not_sent_again() -> None:
    client = Client(refuse=1000, fault=True)
    with pytest.raises(StorageError):
        queues(client).orphan_tasks(tasks(10))
    assert len(client.batches) == 1


def test_a_queue_that_is_not_there() -> None:
    with pytest.raises(MaintenanceError, match="LAKESWEEP_SCAN_QUEUE"):
        queues(Client()).ask_for_orphan_scan(OrphanScan(TABLE, "s1"))


@pytest.mark.parametrize(
    "message",
    [
        OrphanScan(
            TABLE, "20261121T220000Z-2b3c4d5e", "rt", {"quarantine": "1 d", "owned_external": ["a"]}, True, True
        ),
        OrphanScan(TABLE, "s1", step=999, hop=15),
        OrphanTask(
            TABLE,
            "s1",
            {"id": "list-0.3", "after": "\ud800\u0000", "until": None, "budget": [1], "more": [{"x": None}]},
        ),
        OrphanSweep(),
        TagSweep(),
        TagSweep("s3://lake/warehouse/é", 3),
        OrphanSweep("s3://lake/warehouse/é", 3),
    ],
)
def test_a_message_is_read_as_it_was_written(message: OrphanScan | OrphanTask | OrphanSweep | TagSweep) -> None:
    assert parse_message(to_body(message), "m") == message


def test_a_request_that_does_not_say_who_asked_is_nobodys() -> None:
    """So the fleet policy decides about its plan. A message of another version may use another word."""
    place = {"table": "s3://lake/sales.db/orders", "branch": "main", "scan_id": "20261121T220000Z-2b3c4d5e"}
    for kind in ("spark", "orphan_scan"):
        body = {"format_version": 1, "kind": kind, "hop": 0, "by_hand": True, "execute": True, **place}
        assert not parse_message(json.dumps(body), "a").manual
