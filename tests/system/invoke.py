"""One built function, run once on one event: `make invoke FUNCTION=expire EVENT=events/sqs_expire.json`.

It runs as in the deployed system, under Lambda's client and under its role, beside an S3 of this process that has the
tables of the example events. Printed are what it logged, what it asked of AWS, what it sent, and its answer.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.stack import ACCOUNT
from tests.support.system.build import BuildError, build_here
from tests.support.system.clock import Clock
from tests.support.system.deployed import PREFIX, System
from tests.support.system.queue import Queue
from tests.system.__main__ import own_environment, run_to_the_end

TABLES = ("sales.db/orders", "sales.db/customers")
COMMITS = 50
OPTIONS = {
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "5",
    "snapshot.time-retained": "1 h",
    "consumer.expiration-time": "1 d",
}
EXAMPLE_ACCOUNTS = (ACCOUNT, "111122223333", "444455556666")


def main(arguments: Sequence[str] | None = None) -> int:
    """Invoke it and return the exit code: 0 if it answered, and no message of the batch failed."""
    options = _options(arguments)
    own_environment()
    parameters = {
        "TableBuckets": options.bucket,
        "TablePrefixes": f"{options.bucket}/{PREFIX}",
        "AllowedAccounts": ",".join(EXAMPLE_ACCOUNTS),
    }
    try:
        event = json.loads(Path(options.event).read_text(encoding="utf-8"))
        build = build_here()
    except ValueError as error:
        print(f"make invoke: {options.event} is no JSON: {error}", file=sys.stderr)
        return 2
    except (OSError, BuildError) as error:
        print(f"make invoke: {error}", file=sys.stderr)
        return 2
    system = System(build, mode=options.mode, parameters=parameters, takes_messages=False)
    names = {_folder(system, name): name for name in system.stack.of_type("AWS::Serverless::Function")}
    name = names.get(options.function, options.function)
    if name not in names.values():
        print(f"make invoke: no function {name!r}; expected one of {', '.join(names)}", file=sys.stderr)
        return 2
    with system:
        for table in TABLES:
            _write(system, table)
        if name in system.mappings and not _is_batch(event):
            event = _batch(event, system.mappings[name].queue, system.clock)
        waiting = {queue: len(queue.messages()) for queue in system.queues.values()}
        done = system.invoke(name, event)
        for line in done.lines:
            print(json.dumps(line))
        asked = [request for request in system.aws.log if request.caller == done.caller]
        print(f"requests: {len(asked)}")
        for request in asked:
            print(f"  {request.operation} {request.status} {request.bucket}/{request.key}".rstrip(" /"))
        for queue, before in waiting.items():
            for message in queue.messages()[before:]:
                print(f"sent to {queue.name}: {message.body}")
        print(f"answer after {done.seconds:.2f} s{', ' + done.error if done.error else ''}:")
        print(json.dumps(done.value, indent=1) if not isinstance(done.value, str) else done.value)
    return 1 if done.error or done.value.get("batchItemFailures") else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make invoke",
        description="Run one built function on one event, with an S3 that has the tables of the example events: "
        f"{' and '.join(TABLES)} in s3://lake/{PREFIX}, {COMMITS} commits each.",
        epilog="Example: make invoke FUNCTION=on_demand EVENT=events/on_demand_maintain.json ARGS='--mode observe'",
    )
    parser.add_argument("function", help="its folder below functions/, or its logical id in the template")
    parser.add_argument("event", help="a file; becomes a batch of one message unless it is a batch")
    parser.add_argument("--mode", choices=("observe", "delete"), default="delete", help="of the deployment (delete)")
    parser.add_argument("--bucket", default="lake", help="the bucket that the event names (lake)")
    return parser.parse_args(arguments)


def _folder(system: System, name: str) -> str:
    return str(system.stack.function(name)["CodeUri"]).rpartition("/")[2]


def _write(system: System, table: str) -> None:
    builder = system.table(table, OPTIONS)
    for number in range(1, COMMITS + 1):
        builder.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    builder.hint("LATEST", COMMITS)


def _is_batch(event: Any) -> bool:
    """Tell whether Lambda hands over such an event as it is. A notification of S3 has records too, in one message."""
    records = event.get("Records") if isinstance(event, dict) else None
    return isinstance(records, list) and all(
        isinstance(it, dict) and it.get("eventSource") == "aws:sqs" for it in records
    )


def _batch(body: Any, queue: Queue, clock: Clock) -> dict[str, Any]:
    """Return a message as the function gets it from its queue, past the queue itself."""
    own = Queue(queue.name, queue.arn, {"FifoQueue": queue.fifo}, clock)
    own.send(json.dumps(body), **({"group": "event", "dedup_id": "event"} if queue.fifo else {}))
    return {"Records": [message.record(own) for message in own.receive(1)]}


if __name__ == "__main__":
    run_to_the_end(main)
