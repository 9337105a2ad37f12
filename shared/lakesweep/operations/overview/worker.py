"""The program of a process that measures tables for another one; see `processes.py`."""

import os
import sys
import threading
from queue import SimpleQueue
from typing import IO

from lakesweep.operations.overview.frames import receive, send
from lakesweep.operations.overview.looking import Task, look_at
from lakesweep.operations.overview.opening import Opening
from lakesweep.storage.allocator import return_large_blocks


def main() -> None:
    """Measure the tables of standard input until it ends: then nobody waits for an answer."""
    return_large_blocks()
    looks = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get among the answers
    tasks: SimpleQueue[Task] = SimpleQueue()
    try:
        opening, slots = receive(sys.stdin.buffer)
        lock = threading.Lock()
        for _ in range(slots):
            threading.Thread(target=_work, args=(opening, tasks, looks, lock), daemon=True).start()
        while True:
            tasks.put(receive(sys.stdin.buffer))
    finally:
        os._exit(0)


def _work(opening: Opening, tasks: SimpleQueue[Task], looks: IO[bytes], lock: threading.Lock) -> None:
    while True:
        look = look_at(opening, tasks.get())
        try:
            with lock:
                send(looks, look)
        except OSError:
            os._exit(0)
