"""Troubles on the way: events and messages that come twice, late, in another order, or never."""

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.support.system.deployed import System
from tests.support.system.message import Message, SqsError
from tests.support.system.source_mapping import SourceMapping
from tests.support.system.troubled_requests import MOST_RECEPTIONS
from tests.support.system.troubles import EVENTS, Waiting

_KINDS = ("doubled", "delayed", "reordered", "lost")


class TroubledMessages:
    """Lets troubles happen between the bucket, the queues and the functions."""

    def __init__(self, system: System, waiting: Waiting) -> None:
        """Begin at once."""
        self.poison: list[str] = []
        """Bodies that were sent and that no function can read."""
        self._system, self._waiting = system, waiting
        self._names = {queue.name: name for name, queue in system.queues.items()}
        self._poisoned = 0
        self._held: dict[str, Sequence[Message]] = {}
        self._lock = threading.Lock()
        for mapping in system.mappings.values():
            mapping.disturbance = self._disturb
        system.rules[EVENTS].on_delivery = self._on_event

    def _disturb(self, mapping: SourceMapping, messages: Sequence[Message]) -> Sequence[Sequence[Message]]:
        queue, name = mapping.queue, self._names[mapping.queue.name]
        if self._waiting.next(name, ("poisoned",)):
            self._poison(name)
        may = all(message.receive_count < MOST_RECEPTIONS for message in messages)
        trouble = self._waiting.next(name, _KINDS, may=may)
        before = self._held.pop(name, ())
        kind = "" if trouble is None else trouble.kind
        if kind == "doubled":
            return [messages, messages, before]
        if kind == "reordered" and len(messages) > 1:
            return [*([message] for message in reversed(messages)), before]
        if kind == "reordered":  # it comes after the next ones, and once more when its time in flight is over
            self._held[name] = messages
            return [before]
        for message in messages:
            with suppress(SqsError):
                if kind == "delayed" and trouble is not None:
                    queue.change_visibility(str(message.receipt), trouble.amount)
                if kind == "lost":
                    queue.delete(str(message.receipt))
                    self._forget(message.body)
        return [before] if kind else [messages, before]

    def _on_event(self, event: dict[str, Any]) -> bool:
        trouble = self._waiting.next(EVENTS, _KINDS)
        if trouble is None:
            return True
        again_s = {"doubled": 0.0, "delayed": trouble.amount}.get(trouble.kind)
        if again_s is not None:
            self._system.queues["CommitsQueue"].send(json.dumps(event), delay_s=int(again_s))
        return trouble.kind == "doubled"

    def _poison(self, name: str) -> None:
        with self._lock:
            self._poisoned += 1
            body = f'{{"format_version": 1, "kind": "poison {self._poisoned}"'
            self.poison.append(body)
        queue = self._system.queues[name]
        group = f"poison-{self._poisoned}" if queue.fifo else None
        queue.send(body, group=group, dedup_id=group)

    def _forget(self, body: str) -> None:
        with self._lock:
            if body in self.poison:
                self.poison.remove(body)
