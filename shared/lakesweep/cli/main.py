"""The entry point of the command line.

A command imports its modules only when it runs, so that `--help` stays quick.
"""

import signal
import sys
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from lakesweep import __version__
from lakesweep.cli import (
    changes,
    compaction,
    completion,
    demo,
    enable_events,
    erasure,
    expiry,
    housekeeping,
    manifests,
    overview,
    partitions,
    pausing,
    repair,
    rows,
)
from lakesweep.cli.command import Command
from lakesweep.cli.ending import end_beside_arrow
from lakesweep.cli.help import fitted, shown, summary
from lakesweep.cli.history import audit, records
from lakesweep.cli.history.execute import execute
from lakesweep.cli.inspect import policy, roots
from lakesweep.cli.inspect.check import check
from lakesweep.cli.inspect.doctor import doctor
from lakesweep.cli.inspect.explain import explain
from lakesweep.cli.inspect.files import files
from lakesweep.cli.inspect.read import read
from lakesweep.cli.inspect.show import show
from lakesweep.cli.simulate import simulate
from lakesweep.cli.terminal.output import explain_usage, for_people, print_lines, say, unwritten
from lakesweep.errors import MaintenanceError, TerminatedError, stop_exit_code, stopped_by
from lakesweep.storage import stops

COMMANDS = (
    show,
    files,
    read,
    explain,
    check,
    doctor,
    simulate,
    Command(overview.overview, overview.EXAMPLES),
    expiry.maintain,
    expiry.expire_snapshots,
    expiry.expire_changelogs,
    expiry.clear_consumers,
    expiry.reset_consumer,
    partitions.drop_partition,
    partitions.expire_partitions,
    partitions.truncate,
    rows.delete_rows,
    erasure.erase,
    compaction.compact,
    manifests.compact_manifest,
    repair.remove_unexisting_files,
    repair.remove_unexisting_manifests,
    repair.clean_deletion_vectors,
    repair.repair_hints,
    roots.tags,
    changes.create_tag,
    changes.replace_tag,
    changes.rename_tag,
    changes.delete_tag,
    changes.expire_tags,
    changes.tag_schedule,
    changes.rollback,
    changes.fast_forward,
    roots.branches,
    changes.create_branch,
    changes.delete_branch,
    expiry.remove_orphan_files,
    Command(pausing.pause, pausing.PAUSE_EXAMPLES),
    Command(pausing.resume, pausing.RESUME_EXAMPLES),
    records.plans,
    execute,
    records.runs,
    records.report,
    changes.undo,
    housekeeping.housekeeping,
    Command(enable_events.enable_events, enable_events.EXAMPLES),
    Command(demo.demo, demo.EXAMPLES),
    Command(completion.completion, completion.EXAMPLES),
)
"""In the order of `--help`."""
GROUPS = {
    "policy": ("Try a fleet policy.", (policy.test,)),
    "audit": (
        "Check and export the documents that Lakesweep has stored.",
        (Command(audit.verify, audit.EXAMPLES), Command(audit.ledger, audit.LEDGER_EXAMPLES)),
    ),
}
"""Name of a group of commands -> what it is for, and the commands."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask this process to end. The first is Ctrl-C."""


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: Arguments without the program's name; by default the process's arguments. Then the process may end here.
    """
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
    finally:
        if argv is None:
            _end_quietly()
    if argv is None:
        end_beside_arrow(code)
    return code


def _run(arguments: list[str]) -> int:
    for_people("--json" not in arguments)
    command = fitted(typer.main.get_command(app(arguments)))
    try:
        if arguments[:1] == [completion.ASK]:
            print_lines(completion.candidates(command, arguments[1:]))
            return 0
        with _stopping():
            return int(command.main(arguments, prog_name="lakesweep", standalone_mode=False) or 0)
    except MaintenanceError as error:  # options that exclude each other, or an answer that could not be written
        say(str(error))
        return error.exit_code
    except typer.TyperException as error:
        # Only the parser raises these, for a wrong command line. Without a command the message is the help.
        message = error.format_message()
        if message.startswith("Usage:"):
            explain_usage(message)
        else:
            say(f"{_one_line(message)}; see {_command_of(error)} --help")
        return 2
    except OSError as error:  # commands handle their own, so here the parser could not write its help
        say(str(unwritten(sys.stdout, error)))
        return 1
    except SystemExit as leave:  # the parser raises this if a pipe is closed
        return leave.code if isinstance(leave.code, int) else 1
    except typer.Abort as error:  # the parser raises this for Ctrl-C and for signals
        return _stopped(error.__cause__ if isinstance(error.__cause__, KeyboardInterrupt) else KeyboardInterrupt())
    except KeyboardInterrupt as stop:
        return _stopped(stop)


def _stopped(stop: KeyboardInterrupt) -> int:
    say(f"stopped by {stopped_by(stop)}")
    return stop_exit_code(stop)


def app(words: Container[str] | None = None) -> typer.Typer:
    """Return the parser.

    Args:
        words: The arguments. A command whose name is not among them gets no options, since they take most of the time.
            By default all commands are complete.
    """
    root = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # rich would triple the time of --help
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 done, planned or nothing to do; 1 error; 2 usage; 3 refused; 4 partial, or a "
        "damaged table; 5 another maintainer holds the lease; 6 findings of check; 129, 130, 143 stopped by SIGHUP, "
        "Ctrl-C, SIGTERM.\n\n"
        "A terminal shows how far a long command is; LAKESWEEP_PROGRESS=30 prints it every 30 s anywhere, and "
        "LAKESWEEP_PROGRESS=0 nowhere.",
    )
    root.callback()(_root)
    for each in COMMANDS:
        _add(root, each, words)
    for name, (what, commands) in GROUPS.items():
        group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=what, short_help=what)
        group.callback()(lambda: None)
        for each in commands:
            _add(group, each, words)
        root.add_typer(group, name=name)
    return root


def _add(group: typer.Typer, command: Command, words: Container[str] | None) -> None:
    is_named = words is None or command.name in words
    function = command.parsed(command.function) if is_named else _unnamed
    group.command(command.name, short_help=summary(command.function), epilog=shown(command.examples))(function)


def _unnamed() -> int:
    raise AssertionError("a command was called without its name")


def _print_version(wanted: bool) -> None:
    if wanted:
        print_lines([f"lakesweep {__version__}"])
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Maintenance of Apache Paimon tables.

    A command that would change a table prints a plan, and changes nothing without --execute.
    """


def _one_line(message: str) -> str:
    return " ".join(message.split()).rstrip(".")


def _command_of(error: typer.TyperException) -> str:
    """Return the words of the command, without its arguments."""
    context = getattr(error, "ctx", None)
    names: list[str] = []
    while context is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return " ".join(names or ["lakesweep"])


@contextmanager
def _stopping() -> Iterator[None]:
    """Let a signal raise an error, so that a run stores what it did and releases its lease.

    A signal that the process already handles or ignores, as with `nohup`, is not changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    changed = {number: handler for number in _SIGNALS if (handler := signal.getsignal(number)) in usual}
    for number in changed:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)


def _end_quietly() -> None:
    """Let Ctrl-C end this process at once from here on: all is said, and only Python and its threads have yet to end.

    Python would show a traceback of its own shutdown instead.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> None:
    stops.stop()
    raise KeyboardInterrupt if number == signal.SIGINT else TerminatedError(signal.Signals(number).name, number)
