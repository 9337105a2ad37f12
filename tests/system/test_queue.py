"""The queues of the running system behave as AWS documents SQS's."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.stack import render
from tests.support.system.clock import Clock, ManualClock
from tests.support.system.queue import Message, Queue, SqsError, queues_of

ARN = "arn:aws:sqs:eu-central-1:210987654321:"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def standard(clock: Clock, **properties: Any) -> Queue:
    return Queue("work", f"{ARN}work", properties, clock)


def fifo(clock: Clock, **properties: Any) -> Queue:
    return Queue("work.fifo", f"{ARN}work.fifo", {"FifoQueue": True, **properties}, clock)


def with_dead_letters(queue: Queue, clock: Clock, **properties: Any) -> Queue:
    """Give a queue its dead letters, and return them."""
    name = "dead.fifo" if queue.fifo else "dead"
    queue.dead_letters = Queue(name, f"{ARN}{name}", {"FifoQueue": queue.fifo, **properties}, clock)
    return queue.dead_letters


def redrive(after: int) -> dict[str, Any]:
    return {"RedrivePolicy": {"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": after}}


def bodies(messages: Iterable[Message]) -> list[str]:
    return [message.body for message in messages]


def refused(code: str) -> Any:
    return pytest.raises(SqsError, match=f"^{code}: ")


def receipt_of(message: Message) -> str:
    assert message.receipt is not None
    return message.receipt


# --- what every queue does ---


def test_a_received_message_is_hidden_for_the_visibility_timeout(clock: ManualClock) -> None:
    queue = standard(clock, VisibilityTimeout=370)
    queue.send("a")
    assert bodies(queue.receive()) == ["a"]
    clock.advance(369.9)
    assert queue.receive() == []
    clock.advance(0.1)
    (again,) = queue.receive()
    assert again.receive_count == 2


def test_a_receiver_may_state_another_visibility_timeout(clock: ManualClock) -> None:
    queue = standard(clock, VisibilityTimeout=370)
    queue.send("a")
    queue.receive(visibility_s=5)
    clock.advance(5)
    assert bodies(queue.receive()) == ["a"]


def test_the_visibility_timeout_is_half_a_minute_unless_stated(clock: ManualClock) -> None:
    assert standard(clock).visibility_s == 30


def test_a_deleted_message_does_not_come_back(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("a")
    (message,) = queue.receive()
    queue.delete(receipt_of(message))
    queue.delete(receipt_of(message))
    clock.advance(3600)
    assert queue.receive() == [] and queue.messages() == []


@pytest.mark.parametrize("make", [standard, fifo])
def test_a_changed_visibility_counts_from_the_change(clock: ManualClock, make: Any) -> None:
    queue = make(clock, VisibilityTimeout=30)
    queue.send("a", **_names(queue))
    (message,) = queue.receive()
    clock.advance(20)
    queue.change_visibility(receipt_of(message), 100)
    clock.advance(99)
    assert queue.receive() == []
    clock.advance(1)
    (message,) = queue.receive()
    queue.change_visibility(receipt_of(message), 0)
    assert bodies(queue.receive()) == ["a"]


def _names(queue: Queue, of: str = "1") -> dict[str, str]:
    return {"group": "g", "dedup_id": of} if queue.fifo else {}


@pytest.mark.parametrize("limit", [0, 11])
def test_at_most_ten_are_received_at_once(clock: ManualClock, limit: int) -> None:
    queue = standard(clock)
    for number in range(12):
        queue.send(str(number))
    with refused("InvalidParameterValue"):
        queue.receive(limit)
    assert [len(queue.receive()), len(queue.receive()), len(queue.receive())] == [10, 2, 0]


@pytest.mark.parametrize(("stated", "kept_s"), [({}, 4 * 86400), ({"MessageRetentionPeriod": 60}, 60)])
def test_a_message_is_kept_for_the_retention_period(clock: ManualClock, stated: dict[str, int], kept_s: float) -> None:
    queue = standard(clock, **stated)
    queue.send("a")
    clock.advance(kept_s - 1)
    assert bodies(queue.messages()) == ["a"]
    clock.advance(1)
    assert queue.messages() == [] and queue.receive() == []


def test_receptions_are_of_one_moment(clock: ManualClock) -> None:
    """What somebody holds does not change when the message is received again."""
    queue = standard(clock)
    queue.send("a")
    (first,) = queue.receive()
    clock.advance(30)
    queue.receive()
    assert first.receive_count == 1


def test_each_message_goes_to_one_of_many_receivers() -> None:
    queue = standard(Clock())
    for number in range(400):
        queue.send(str(number))
    received: list[str] = []

    def receive() -> None:
        while messages := queue.receive(3):
            received.extend(bodies(messages))
            for message in messages:
                queue.delete(receipt_of(message))

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(received, key=int) == [str(number) for number in range(400)]


# --- what is refused ---


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "MissingParameter"),
        ("x" * 262_145, "InvalidParameterValue"),
        ("ä" * 131_073, "InvalidParameterValue"),
        ("a\x00", "InvalidMessageContents"),
        ("a\x0b", "InvalidMessageContents"),
        ("a\x1f", "InvalidMessageContents"),
        ("a\ud800", "InvalidMessageContents"),
        ("a\ufffe", "InvalidMessageContents"),
    ],
    ids=["empty", "long", "long-in-bytes", "nul", "vertical-tab", "unit-separator", "surrogate", "no-character"],
)
def test_such_a_body_is_refused(clock: ManualClock, body: str, code: str) -> None:
    queue = standard(clock)
    with refused(code):
        queue.send(body)
    assert queue.messages() == []


@pytest.mark.parametrize("body", ["x" * 262_144, "ä" * 131_072, "\t\n\r ~\x7f\ud7ff\ufffd\U0001f600\U0010ffff"])
def test_such_a_body_is_taken(clock: ManualClock, body: str) -> None:
    queue = standard(clock)
    queue.send(body)
    assert bodies(queue.receive()) == [body]


def test_a_queue_may_take_less(clock: ManualClock) -> None:
    queue = standard(clock, MaximumMessageSize=1024)
    with refused("InvalidParameterValue"):
        queue.send("x" * 1025)


@pytest.mark.parametrize("delay_s", [-1, 901])
def test_such_a_delay_is_refused(clock: ManualClock, delay_s: float) -> None:
    with refused("InvalidParameterValue"):
        standard(clock).send("a", delay_s=delay_s)


@pytest.mark.parametrize("group", ["", "a b", "ä", "x" * 129])
def test_such_a_group_is_refused(clock: ManualClock, group: str) -> None:
    with refused("InvalidParameterValue"):
        fifo(clock).send("a", group=group, dedup_id="1")
    with refused("InvalidParameterValue"):
        fifo(clock).send("a", group="g", dedup_id=group)


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_such_a_visibility_is_refused(clock: ManualClock, seconds: float) -> None:
    queue = standard(clock)
    queue.send("a")
    with refused("InvalidParameterValue"):
        queue.receive(visibility_s=seconds)
    (message,) = queue.receive()
    with refused("InvalidParameterValue"):
        queue.change_visibility(receipt_of(message), seconds)


@pytest.mark.parametrize("receipt", ["", "x", "other/1/1"])
def test_a_receipt_of_another_queue_is_refused(clock: ManualClock, receipt: str) -> None:
    with refused("ReceiptHandleIsInvalid"):
        standard(clock).delete(receipt)
    with refused("ReceiptHandleIsInvalid"):
        standard(clock).change_visibility(receipt, 1)


def test_a_property_that_is_not_known_here_is_refused(clock: ManualClock) -> None:
    with pytest.raises(NotImplementedError, match="RedriveAllowPolicy"):
        standard(clock, RedriveAllowPolicy={})


@pytest.mark.parametrize(("name", "is_fifo"), [("work", True), ("work.fifo", False)])
def test_a_name_tells_whether_a_queue_is_fifo(clock: ManualClock, name: str, is_fifo: bool) -> None:
    with refused("InvalidParameterValue"):
        Queue(name, ARN + name, {"FifoQueue": is_fifo}, clock)


# --- standard queues ---


def test_a_delayed_message_waits(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("later", delay_s=900)
    queue.send("now")
    assert bodies(queue.receive()) == ["now"]
    clock.advance(900)
    assert "later" in bodies(queue.receive())


def test_a_queue_may_delay_what_states_no_delay(clock: ManualClock) -> None:
    queue = standard(clock, DelaySeconds=10)
    queue.send("a")
    queue.send("b", delay_s=0)
    assert bodies(queue.receive()) == ["b"]


def test_a_standard_queue_deletes_after_the_visibility_timeout(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("a")
    (message,) = queue.receive()
    clock.advance(31)
    queue.delete(receipt_of(message))
    assert queue.messages() == []


def test_a_standard_queue_ignores_the_receipt_of_an_earlier_reception(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("a")
    (first,) = queue.receive()
    clock.advance(31)
    (second,) = queue.receive()
    queue.delete(receipt_of(first))
    assert bodies(queue.messages()) == ["a"]
    with refused("InvalidParameterValue"):
        queue.change_visibility(receipt_of(first), 0)
    queue.delete(receipt_of(second))
    assert queue.messages() == []


def test_the_visibility_of_what_nobody_has_cannot_be_changed(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("a")
    (message,) = queue.receive()
    clock.advance(30)
    with refused("MessageNotInflight"):
        queue.change_visibility(receipt_of(message), 10)
    queue.delete(receipt_of(message))
    with refused("InvalidParameterValue"):
        queue.change_visibility(receipt_of(message), 10)


def test_what_fails_again_and_again_comes_last(clock: ManualClock) -> None:
    queue = standard(clock)
    queue.send("poison")
    for _ in range(3):
        queue.receive()
        clock.advance(30)
    queue.send("b")
    queue.receive()
    clock.advance(30)
    assert bodies(queue.receive()) == ["b", "poison"]


def test_a_standard_queue_knows_no_deduplication(clock: ManualClock) -> None:
    queue = standard(clock)
    assert queue.send("a") != queue.send("a")
    with refused("InvalidParameterValue"):
        queue.send("a", dedup_id="1")


# --- dead letters ---


def test_a_message_is_received_five_times_and_then_a_dead_letter(clock: ManualClock) -> None:
    queue = standard(clock, **redrive(5))
    dead = with_dead_letters(queue, clock)
    message_id = queue.send("poison")
    for reception in range(1, 6):
        (message,) = queue.receive()
        assert message.receive_count == reception
        clock.advance(30)
    assert dead.messages() == [] and queue.visible() == 1  # it waits for the reception that it does not get
    queue.send("b")
    assert bodies(queue.receive()) == ["b"]
    (letter,) = dead.receive()
    assert (letter.id, letter.body, letter.receive_count) == (message_id, "poison", 6)
    assert bodies(queue.messages()) == ["b"]


def test_a_receipt_from_the_queue_is_none_for_the_dead_letters(clock: ManualClock) -> None:
    queue = standard(clock, **redrive(1))
    dead = with_dead_letters(queue, clock)
    queue.send("a")
    (message,) = queue.receive()
    clock.advance(30)
    queue.receive()
    queue.delete(receipt_of(message))
    assert bodies(dead.messages()) == ["a"]


def test_a_standard_dead_letter_is_kept_from_when_it_was_sent(clock: ManualClock) -> None:
    queue = standard(clock, **redrive(1))
    dead = with_dead_letters(queue, clock, MessageRetentionPeriod=1000)
    queue.send("a")
    _to_dead_letters(queue, clock, after_s=600)
    clock.advance(399)
    assert bodies(dead.messages()) == ["a"]
    assert dead.oldest_age_s() == 399
    clock.advance(1)
    assert dead.messages() == []


def test_a_fifo_dead_letter_is_kept_from_when_it_became_one(clock: ManualClock) -> None:
    queue = fifo(clock, **redrive(1))
    dead = with_dead_letters(queue, clock, MessageRetentionPeriod=1000)
    queue.send("a", group="g", dedup_id="1")
    _to_dead_letters(queue, clock, after_s=600)
    clock.advance(999)
    assert bodies(dead.messages()) == ["a"]
    clock.advance(1)
    assert dead.messages() == []


def _to_dead_letters(queue: Queue, clock: ManualClock, after_s: float = 30) -> None:
    assert queue.receive()
    clock.advance(after_s)
    assert queue.receive() == []


def test_a_fifo_dead_letter_keeps_its_group_and_frees_it(clock: ManualClock) -> None:
    queue = fifo(clock, **redrive(1))
    dead = with_dead_letters(queue, clock)
    first_id = queue.send("poison", group="g", dedup_id="1")
    queue.send("next", group="g", dedup_id="2")
    assert bodies(queue.receive(1)) == ["poison"]
    clock.advance(30)
    assert bodies(queue.receive(1)) == ["next"]
    (letter,) = dead.messages()
    # Two messages of one deduplication id, more than five minutes apart, may both become dead letters.
    assert (letter.group, letter.dedup_id, letter.receipt) == ("g", first_id, None)


def test_dead_letters_of_another_type_are_refused(clock: ManualClock) -> None:
    queue = fifo(clock, **redrive(1))
    queue.dead_letters = standard(clock)
    queue.send("a", group="g", dedup_id="1")
    queue.receive()
    clock.advance(30)
    with refused("InvalidParameterValue"):
        queue.receive()


def test_dead_letters_that_nobody_set_are_not_lost(clock: ManualClock) -> None:
    queue = standard(clock, **redrive(1))
    queue.send("a")
    queue.receive()
    clock.advance(30)
    with pytest.raises(RuntimeError, match="dead letters"):
        queue.receive()
    assert bodies(queue.messages()) == ["a"]


def test_dead_letters_move_back_as_new_messages(clock: ManualClock) -> None:
    queue = fifo(clock, **redrive(1))
    dead = with_dead_letters(queue, clock)
    first_id = queue.send("a", group="g", dedup_id="1", trace="Root=1")
    _to_dead_letters(queue, clock)
    assert dead.move_to(queue) == 1
    assert dead.messages() == []
    (message,) = queue.receive()
    assert (message.body, message.group, message.trace) == ("a", "g", "Root=1")
    assert (message.receive_count, message.sent_s) == (1, clock.now()) and message.id != first_id


def test_a_move_leaves_what_somebody_has(clock: ManualClock) -> None:
    queue, other = standard(clock), Queue("other", f"{ARN}other", {}, clock)
    queue.send("a")
    queue.send("b")
    queue.receive(1)
    assert queue.move_to(other) == 1
    assert (bodies(queue.messages()), bodies(other.messages())) == (["a"], ["b"])
    with refused("InvalidParameterValue"):
        queue.move_to(fifo(clock))


# --- FIFO queues ---


def test_a_group_comes_in_order_and_one_batch_at_a_time(clock: ManualClock) -> None:
    queue = fifo(clock)
    for number in "123":
        queue.send(f"a{number}", group="a", dedup_id=number)
    (first,) = queue.receive(1)
    assert first.body == "a1" and queue.receive() == []
    queue.delete(receipt_of(first))
    batch = queue.receive(2)
    assert bodies(batch) == ["a2", "a3"]
    queue.delete(receipt_of(batch[0]))
    queue.send("a4", group="a", dedup_id="4")
    assert queue.receive() == []
    queue.delete(receipt_of(batch[1]))
    assert bodies(queue.receive()) == ["a4"]


def test_a_group_goes_on_when_the_visibility_timeout_is_over(clock: ManualClock) -> None:
    queue = fifo(clock)
    queue.send("a1", group="a", dedup_id="1")
    queue.send("a2", group="a", dedup_id="2")
    queue.receive(1)
    clock.advance(30)
    assert bodies(queue.receive()) == ["a1", "a2"]


def test_a_group_waits_for_the_last_of_a_batch(clock: ManualClock) -> None:
    """The first message is free again, and the second is not: order would break if it came."""
    queue = fifo(clock)
    queue.send("a1", group="a", dedup_id="1")
    queue.send("a2", group="a", dedup_id="2")
    first, _ = queue.receive()
    queue.change_visibility(receipt_of(first), 0)
    assert queue.receive() == []
    assert queue.next_change_s() == clock.now() + 30


def test_groups_do_not_wait_for_each_other(clock: ManualClock) -> None:
    queue = fifo(clock)
    for group, number in ("a1", "b1", "a2", "c1", "b2"):
        queue.send(group + number, group=group, dedup_id=group + number)
    assert [bodies(queue.receive(1)) for _ in range(4)] == [["a1"], ["b1"], ["c1"], []]
    clock.advance(30)
    assert bodies(queue.receive(3)) == ["a1", "a2", "b1"]  # as many of one group as there are


def test_a_duplicate_is_answered_and_not_kept(clock: ManualClock) -> None:
    queue = fifo(clock)
    first_id = queue.send("a", group="g", dedup_id="1")
    assert queue.send("b", group="g", dedup_id="1") == first_id
    assert bodies(queue.messages()) == ["a"]


def test_a_duplicate_is_none_after_five_minutes(clock: ManualClock) -> None:
    queue = fifo(clock)
    first_id = queue.send("a", group="g", dedup_id="1")
    (message,) = queue.receive()
    queue.delete(receipt_of(message))
    clock.advance(299)
    assert queue.send("a", group="g", dedup_id="1") == first_id
    assert queue.messages() == []
    clock.advance(1)  # from the first one: a duplicate does not make it longer
    assert queue.send("a", group="g", dedup_id="1") != first_id
    clock.advance(299)
    queue.send("a", group="g", dedup_id="1")
    assert len(queue.messages()) == 1


@pytest.mark.parametrize(("stated", "kept"), [({}, 1), ({"DeduplicationScope": "messageGroup"}, 2)])
def test_duplicates_are_of_the_queue_or_of_a_group(clock: ManualClock, stated: dict[str, str], kept: int) -> None:
    queue = fifo(clock, **stated)
    queue.send("a", group="g", dedup_id="1")
    queue.send("a", group="h", dedup_id="1")
    queue.send("a", group="h", dedup_id="1")
    assert len(queue.messages()) == kept


def test_a_body_may_be_its_own_deduplication(clock: ManualClock) -> None:
    queue = fifo(clock, ContentBasedDeduplication=True)
    assert queue.send("a", group="g") == queue.send("a", group="g")
    assert queue.send("b", group="g") != queue.send("b", group="g", dedup_id="1")
    assert len(queue.messages()) == 3


def test_a_fifo_queue_asks_for_a_group_and_a_deduplication(clock: ManualClock) -> None:
    with refused("MissingParameter"):
        fifo(clock).send("a", dedup_id="1")
    with refused("InvalidParameterValue"):
        fifo(clock).send("a", group="g")


def test_a_fifo_queue_delays_no_single_message(clock: ManualClock) -> None:
    queue = fifo(clock, DelaySeconds=10)
    with refused("InvalidParameterValue"):
        queue.send("a", group="g", dedup_id="1", delay_s=1)
    queue.send("a", group="g", dedup_id="2", delay_s=0)
    assert queue.receive() == [] and queue.delayed() == 1
    clock.advance(10)
    assert bodies(queue.receive()) == ["a"]


def test_a_fifo_queue_refuses_receipts_that_are_over(clock: ManualClock) -> None:
    queue = fifo(clock)
    queue.send("a", group="g", dedup_id="1")
    (first,) = queue.receive()
    clock.advance(30)
    _refuses(queue, first)  # nobody has it
    (second,) = queue.receive()
    _refuses(queue, first)  # somebody else has it
    assert bodies(queue.messages()) == ["a"]
    queue.delete(receipt_of(second))
    queue.delete(receipt_of(first))  # gone is what it should be
    assert queue.messages() == []


def _refuses(queue: Queue, message: Message) -> None:
    with refused("InvalidParameterValue"):
        queue.delete(receipt_of(message))
    with refused("InvalidParameterValue"):
        queue.change_visibility(receipt_of(message), 10)


# --- who looks at it ---


def test_numbers_of_messages(clock: ManualClock) -> None:
    queue = standard(clock)
    for body in "abc":
        queue.send(body)
    queue.send("d", delay_s=60)
    queue.receive(1)
    assert (queue.visible(), queue.in_flight(), queue.delayed()) == (2, 1, 1)
    clock.advance(60)
    assert (queue.visible(), queue.in_flight(), queue.delayed()) == (4, 0, 0)


def test_a_blocked_group_is_visible(clock: ManualClock) -> None:
    queue = fifo(clock)
    for number in "123":
        queue.send(number, group="g", dedup_id=number)
    queue.receive(1)
    assert (queue.visible(), queue.in_flight()) == (2, 1)


def test_the_age_of_the_oldest_message(clock: ManualClock) -> None:
    queue = standard(clock)
    assert queue.oldest_age_s() == 0
    queue.send("a")
    clock.advance(100)
    queue.send("b")
    (first,) = queue.receive(1)
    assert queue.oldest_age_s() == 100
    queue.delete(receipt_of(first))
    assert queue.oldest_age_s() == 0


@pytest.mark.parametrize(("make", "age_s"), [(standard, 30), (fifo, 90)])
def test_the_age_leaves_out_what_was_received_three_times(clock: ManualClock, make: Any, age_s: float) -> None:
    """Of standard queues only: it would hide the others that wait. AWS documents it."""
    queue = make(clock)
    queue.send("poison", **_names(queue))
    for _ in range(2):
        queue.receive()
        clock.advance(30)
    assert queue.oldest_age_s() == 60
    queue.receive()
    queue.send("b", **_names(queue, "2"))
    clock.advance(30)
    assert queue.oldest_age_s() == age_s


def test_when_a_message_can_be_received_next(clock: ManualClock) -> None:
    queue = standard(clock)
    assert queue.next_change_s() is None
    queue.send("a", delay_s=60)
    assert queue.next_change_s() == clock.now() + 60
    queue.send("b")
    assert queue.next_change_s() == clock.now()
    (b,) = queue.receive()
    assert queue.next_change_s() == clock.now() + 30
    clock.advance(100)
    assert queue.next_change_s() == clock.now()
    assert bodies(queue.receive()) == ["a", "b"]
    queue.delete(receipt_of(b))


def test_when_a_group_can_be_received_next(clock: ManualClock) -> None:
    queue = fifo(clock)
    queue.send("a1", group="a", dedup_id="1")
    queue.receive()
    queue.send("a2", group="a", dedup_id="2")
    assert queue.next_change_s() == clock.now() + 30
    queue.send("b1", group="b", dedup_id="3")
    assert queue.next_change_s() == clock.now()


# --- what a function gets ---


def test_the_record_of_a_standard_queue(clock: ManualClock) -> None:
    queue = standard(clock)
    message_id = queue.send('{"a":1}')
    clock.advance(1.5)
    queue.receive()
    clock.advance(30)
    (message,) = queue.receive()
    assert message.record(queue) == {
        "messageId": message_id,
        "receiptHandle": message.receipt,
        "body": '{"a":1}',
        "attributes": {
            "ApproximateReceiveCount": "2",
            "SentTimestamp": "1700000000000",
            "SenderId": "210987654321",
            "ApproximateFirstReceiveTimestamp": "1700000001500",
        },
        "messageAttributes": {},
        "md5OfBody": "bb6cb5c68df4652941caf652a366f2d8",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"{ARN}work",
        "awsRegion": "eu-central-1",
    }


def test_the_record_of_a_fifo_queue(clock: ManualClock) -> None:
    queue = fifo(clock)
    queue.send("a", group="g", dedup_id="1", trace="Root=1-2-3")
    queue.send("b", group="g", dedup_id="2")
    first, second = (message.record(queue)["attributes"] for message in queue.receive())
    assert (first["MessageGroupId"], first["MessageDeduplicationId"]) == ("g", "1")
    assert first["AWSTraceHeader"] == "Root=1-2-3" and "AWSTraceHeader" not in second
    assert len(first["SequenceNumber"]) == 20 and first["SequenceNumber"] < second["SequenceNumber"]


# --- the template's ---


def test_the_queues_of_the_template(clock: ManualClock) -> None:
    queues = queues_of(render(), clock)
    with_letters = {name: queue.dead_letters for name, queue in queues.items() if queue.dead_letters is not None}
    assert with_letters == {
        "CommitsQueue": queues["CommitsDeadLetters"],
        "ExpireQueue": queues["ExpireDeadLetters"],
        "ExecuteQueue": queues["ExecuteDeadLetters"],
        "SweepQueue": queues["SweepDeadLetters"],
        "TagQueue": queues["TagDeadLetters"],
        "ScanQueue": queues["ScanDeadLetters"],
        "OrphanQueue": queues["OrphanDeadLetters"],
        "CommitterQueue": queues["CommitterDeadLetters"],
    }
    assert all(queue.max_receive_count == 5 for queue in queues.values() if queue.dead_letters is not None)
    assert queues["ExpireQueue"].arn == "arn:aws:sqs:us-east-1:123456789012:lakesweep-expire.fifo"
    assert {name for name, queue in queues.items() if queue.fifo} == {
        *("ExpireQueue", "ExpireDeadLetters", "CommitterQueue", "CommitterDeadLetters")
    }
    assert queues["CommitsQueue"].visibility_s == 370


def test_time_passes_as_fast_as_stated() -> None:
    clock = Clock(speed=1000)
    before = clock.now()
    clock.sleep(20)
    assert 20 <= clock.now() - before < 2000
