"""The deployed system at work on this machine: `make system`.

Builds the functions, starts them with everything between them, lets real writers commit for a while, and then reads
every row again. With `--scan` (`make system SCAN=1`) every table is scanned for orphan files meanwhile, and again when
the writers have stopped. The last line says what was found; the exit code is 0 only if all of it is right.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NoReturn

from lakesweep.storage.open import StoreSettings
from tests.support.stack import REGION
from tests.support.system.build import BuildError, build_here
from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import OUTSIDE
from tests.support.system.maintainers import Maintainers
from tests.support.system.scan_run import ScanRun
from tests.support.system.timeline import HEADER, Pass, Timeline, as_json
from tests.support.system.verdict import Verdict, judge
from tests.support.system.writers import Kind, Writer, WriterError, java_is_missing
from tests.support.system.written import Assignment, Table

SHAPES: dict[Kind, tuple[str, ...]] = {"pypaimon": ("partitioned", "plain", "keyed"), "java": ("streamed", "vectors")}
TAG_EVERY = 7
SWEEP = "rate(5 minutes)"
_OF_THE_USER = ("AWS_", "BOTO_CONFIG", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the system and return the exit code."""
    options = _options(arguments)
    own_environment()
    say = _nothing if options.json else print
    began = time.perf_counter()
    say("Building the functions with sam build, unless that is done", flush=True)
    try:
        build = build_here()
    except BuildError as error:
        print(f"make system: {error}", file=sys.stderr)
        return 1
    say(f"Built after {time.perf_counter() - began:.0f} s, in {build.folder}", flush=True)
    with ExitStack() as stack:
        system = System(
            build,
            speed=options.speed,
            latency_s=options.latency / 1000,
            seed=options.seed,
            parameters={"SweepSchedule": SWEEP},
        )

        def show(found: Pass) -> None:
            print((as_json if options.json else Pass.line)(found, timeline.zero_s), flush=True)

        stack.enter_context(system)
        timeline = Timeline(system, show)
        maintainers = Maintainers(system.clock, system.bucket, system.control_bucket)
        maintainers.watch(system.aws)
        scans = ScanRun(system, partial(say, flush=True), options.objects) if options.scan else None
        system.run_schedules()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakesweep-writers-")))
        writers = [stack.enter_context(Writer(kind, _work(kind, system, options.seconds), folder)) for kind in _kinds()]
        say(f"Tables in s3://{system.bucket}/{PREFIX} of {system.aws.endpoint}, timers {options.speed:g} times as fast")
        try:
            for writer in writers:
                writer.wait_ready()
            say(f"{len(writers)} writers commit for {options.seconds} s. All times in seconds of the system's clock:")
            say(HEADER, flush=True)
            if scans is not None:
                system.clock.work.sleep(options.seconds / 4)
                scans.manual(_folders(writers))
            for writer in writers:
                writer.wait_stopped(options.seconds + 120)
            say("The writers stopped; what still waits comes now, and then a sweep")
            system.settle()
            told_of = timeline.deleted
            system.tick()
            system.settle()
            swept = timeline.deleted - told_of
            if scans is not None:
                scans.by_schedule(_folders(writers))
            system.aws.latency_s = 0
            say("Reading every row of every snapshot and tag again", flush=True)
            verdict = judge(writers, StoreSettings(endpoint_url=system.aws.endpoint, region=REGION))
        except (WriterError, TimeoutError) as error:
            print(f"make system: {error}", file=sys.stderr)
            return 1
        problems = [*verdict.problems, *_left(verdict, scans), *_own_problems(system), *maintainers.problems]
        if scans is not None:
            problems += scans.all_problems()
        if not verdict.problems and not verdict.rows_verified:
            problems.append("no row was written and read again, so nothing is proven")
        if swept:
            problems.append(f"a sweep deleted {swept} objects after the last commits; expected their events to do so")
        for problem in problems:
            print(f"wrong: {problem}", file=sys.stderr)
        print(_summary(system, timeline, verdict, problems, scans))
    return 1 if problems else 0


def run_to_the_end(main: Callable[[], int]) -> NoReturn:
    """Run a command and exit. Ctrl-C and SIGTERM end it with everything that it started, and without a stack trace."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def own_environment() -> None:
    """Hide the user's AWS account and proxies from everything in this process, for good."""
    for name in list(os.environ):
        if name.upper().startswith(_OF_THE_USER):
            del os.environ[name]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": OUTSIDE,
        "AWS_SECRET_ACCESS_KEY": OUTSIDE,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make system",
        description="Run the deployed system on this machine, with real writers, and check every row.",
        epilog='Examples: make system · make system ARGS="--seconds 20 --speed 30" · make system ARGS=--json',
    )
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        help="how long the writers commit, if they need not wait for a processor (60)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=10,
        help="how many times as fast timers run, but for a function's own timeout (10)",
    )
    parser.add_argument("--latency", type=float, default=0, help="milliseconds added to each request to S3 (0)")
    parser.add_argument("--seed", type=int, default=0, help="of what is left to chance (0)")
    parser.add_argument("--scan", action="store_true", help="plant orphan files in every table, and scan for them")
    parser.add_argument("--objects", type=int, default=0, help="with --scan: of one more table, that nobody writes to")
    parser.add_argument("--json", action="store_true", help="one JSON document a pass instead of the table")
    options = parser.parse_args(arguments)
    if options.seconds < 1 or options.speed <= 0 or options.latency < 0 or options.objects < 0:
        parser.error("expected 1 second at least, a speed above 0, and no negative latency or number of objects")
    if options.objects and not options.scan:
        parser.error("expected --scan with --objects")
    return options


def _kinds() -> Iterator[Kind]:
    yield "pypaimon"
    missing = java_is_missing()
    if missing is None:
        yield "java"
    else:
        print(f"The Java engine does not write: {missing}", file=sys.stderr)


def _work(kind: Kind, system: System, seconds: int) -> Assignment:
    tables = tuple(Table(f"{kind}.{shape}", shape) for shape in SHAPES[kind])
    warehouse = f"s3://{system.bucket}/{PREFIX}"
    endpoint, told = system.aws.endpoint, str(system.told)
    return Assignment(kind, endpoint, warehouse, tables, seconds=seconds, tag_every=TAG_EVERY, clock=told)


def _left(verdict: Verdict, scans: ScanRun | None) -> Iterator[str]:
    """Yield what was left behind, unless a commit failed: what such a one leaves is for others to remove."""
    for name, found in verdict.left.items() if not verdict.failed_commits else ():
        planted = scans.stays(Table(name, "").folder) if scans is not None else frozenset[str]()
        keys = [key for key in found if key not in planted]
        if keys:
            yield f"{name}: {len(keys)} files are left that nobody needs, such as {keys[0]}"


def _own_problems(system: System) -> Iterator[str]:
    """Yield what is wrong with the system itself."""
    for name, count in system.backlog().items():
        yield f"queue {name}: {count} messages are left; expected none"
    for done in system.invocations:
        if done.error:
            yield f"{done.caller}: {done.error}: {str(done.value)[:500]}"
    for request in system.aws.denied[:5]:
        yield f"{request.caller} may not {request.operation} {request.bucket}/{request.key}"
    for name, rule in system.rules.items():
        yield from (f"rule {name}: {error}" for error in rule.errors[:5])


def _folders(writers: Sequence[Writer]) -> list[str]:
    return [table.folder for writer in writers for table in writer.tables]


def _summary(
    system: System, timeline: Timeline, verdict: Verdict, problems: Sequence[str], scans: ScanRun | None
) -> str:
    commits = sum(map(len, timeline.commits.values()))
    requests = sum(timeline.requests.values())
    dead = sum(system.dead_letters().values())
    return (
        f"make system: {'FAILED' if problems else 'ok'}: {verdict.rows_verified} rows of {verdict.snapshots_verified} "
        f"snapshots and tags in {verdict.tables} tables verified, {timeline.deleted} objects deleted after {commits} "
        f"commits in {len(timeline.passes)} passes with {requests / max(commits, 1):.1f} requests a commit, "
        f"DLQ depth {dead}, {f'{scans.summary()}, ' if scans is not None else ''}{len(problems)} problems"
    )


def _nothing(*_: object, **__: object) -> None:
    """Say nothing."""


if __name__ == "__main__":
    run_to_the_end(main)
