"""What a person meets at a terminal: quick help, completion, narrow windows."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer

from lakesweep.cli.main import app, main
from lakesweep.cli.terminal import progress
from lakesweep.cli.terminal.output import say
from lakesweep.cli.terminal.progress import shown_progress
from lakesweep.cli.terminal.style import painted
from lakesweep.storage.requests import RequestCounter
from tests.support.terminal import Terminal, terminal
from tests.unit.cli.command_line import call, write_table

BIN = Path(sys.executable).parent

FOR_HELP = [
    "errors",
    "runs",
    "runs.parameters",
    "runs.parameters.age",
    "runs.parameters.commits",
    "runs.parameters.compaction",
    "runs.parameters.erasure",
    "runs.parameters.manifests",
    "runs.parameters.parameter",
    "runs.parameters.partitions",
    "runs.parameters.repair",
    "runs.parameters.rows",
    "runs.parameters.signatures",
    "storage",
    "storage.stops",
]


def test_help_and_mistyped_words_import_only_the_parser() -> None:
    """Help and errors of the parser import typer, what typer needs, and the declarations of commands."""
    code = """
import json, sys
from lakesweep.cli.main import main
codes = [main(argv) for argv in (["--help"], ["-h"], ["shwo"], ["show", "a", "--jsno"])]
packages = sorted({name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"_distutils_hack"})
ours = [name.removeprefix("lakesweep.") for name in sorted(sys.modules) if name.startswith("lakesweep.")]
print(json.dumps([codes, packages, [name for name in ours if not name.startswith("cli")]]))
"""
    words = [sys.executable, "-c", code]
    environment = {**os.environ, "FORCE_COLOR": "1"}
    printed = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    codes, packages, ours = json.loads(printed.splitlines()[-1])
    assert codes == [0, 0, 2, 2]
    assert packages == ["__main__", "annotated_doc", "lakesweep", "shellingham", "typer"]
    assert ours == FOR_HELP


@pytest.mark.parametrize(
    ("argv", "complete"),
    [
        (["--help"], []),
        (["show", "a"], ["show"]),
        (["audit", "verify"], ["verify"]),
        (["tags", "show"], ["show", "tags"]),
    ],
)
def test_the_parser_makes_options_of_the_commands_that_are_named(argv: list[str], complete: list[str]) -> None:
    """Options take most of the parser's time, and help shows those of one command at most."""
    parser: Any = typer.main.get_command(app(argv))
    groups = [parser, *(each for each in parser.commands.values() if hasattr(each, "commands"))]
    commands = {name: each for group in groups for name, each in group.commands.items() if each not in groups}
    assert sorted(name for name, each in commands.items() if each.params) == complete


@pytest.mark.parametrize("argv", [[], ["show"], ["audit"], ["audit", "verify"]])
def test_a_short_word_asks_for_help(argv: list[str]) -> None:
    """`-h` is `--help`, for every command and group."""
    assert call(*argv, "-h") == call(*argv, "--help")
    assert call(*argv, "-h").exit_code == 0


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["expire_snapshots", "a"], "Did you mean 'expire-snapshots'?; see lakesweep --help"),
        (["audit", "verfy"], "Did you mean 'verify'?; see lakesweep audit --help"),
        (["show", "a", "--brnch", "b"], "(Possible options: --branch); see lakesweep show --help"),
        (["audit", "verify", "--jsno"], "(Possible options: --json); see lakesweep audit verify --help"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_near_one(argv: list[str], sentence: str) -> None:
    """The error names the word that was meant, and the help of the command that was typed."""
    answer = call(*argv)
    assert answer.exit_code == 2
    assert answer.messages.endswith(f"{sentence}\n")


@pytest.mark.parametrize("columns", ["1", "40", "51"])
@pytest.mark.parametrize("argv", [["--help"], ["maintain", "--help"], ["audit", "verify", "--help"]])
def test_help_fits_a_narrow_terminal(argv: list[str], columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of help but an example is longer than the terminal, and no sentence is cut off."""
    monkeypatch.setenv("COLUMNS", columns)
    answer = call(*argv)
    assert answer.exit_code == 0
    assert "..." not in answer.printed.replace("[ARGS]...", "")
    if columns != "1":
        lines = [line for line in answer.printed.splitlines() if not line.startswith("    lakesweep ")]
        assert max(map(len, lines)) <= int(columns)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([], ["show", "files"]),
        (["exp"], ["explain", "expire-snapshots", "expire-changelogs", "expire-partitions", "expire-tags"]),
        (["audit", ""], ["verify"]),
        (["show", "my table", "--j"], ["--json"]),
        (["show", ""], []),
        (["show", "a", "--branch", ""], []),
        (["no-such", "--he"], ["--help"]),
        (["compact", "a", "--engine", ""], ["local", "spark"]),
        (["remove-orphan-files", "a", "--engine", "l"], ["local", "lambda"]),
        (["truncate", "a", "--catalog-type", "file"], ["filesystem"]),
        (["overview", "a", "--sort", "s"], ["saving", "small-files", "snapshots"]),
        (["overview", "a", "--fail-on", ""], ["act", "look"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_completion_offers_commands_and_options(words: list[str], offered: list[str]) -> None:
    """Commands and options are offered, and nothing where a path or a value is expected."""
    assert call("--complete", *words).printed.split()[: len(offered) or None] == offered


def test_bash_completes_by_the_script() -> None:
    """The script makes bash offer options after a table on S3, whose colon splits the word."""
    script = """
eval "$(lakesweep completion bash)"
complete -p lakesweep
COMP_WORDS=(lakesweep expire-snapshots s3 : //lake/orders --ret) COMP_CWORD=5
_lakesweep
printf '%s\n' "${COMPREPLY[@]}"
"""
    environment = {"PATH": f"{BIN}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o default -F _lakesweep lakesweep",
        "--retain-max",
        "--retain-min",
    ]


@pytest.mark.parametrize("words", ["expire-snapshots s3://lake/orders --ret", "compact a --engine s", "exp"])
def test_zsh_and_fish_complete_by_the_scripts(words: str, tmp_path: Path) -> None:
    """The same words are offered as in bash, by the shells themselves."""
    expected = call("--complete", *words.split()).printed.split()
    assert expected
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb"}
    shells = {"zsh": f"{_ZSH}\ntry {shlex.quote(words)}", "fish": _FISH % shlex.quote(f"lakesweep {words}")}
    found = {shell: script for shell, script in shells.items() if shutil.which(shell) is not None}
    if not found:
        pytest.skip("neither zsh nor fish is installed")
    for shell, script in found.items():
        done = subprocess.run(
            [shell, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        offered = [line.split("\t")[0] for line in done.stdout.split("\n") if line]
        assert sorted(offered) == sorted(expected), (shell, done.stderr)


_FISH = "lakesweep completion fish | source; complete -C %s"
_ZSH = """
autoload -Uz compinit; compinit -D
eval "$(lakesweep completion zsh)"
(( $+_comps[lakesweep] )) || exit 3
try() {
  COMP_WORDS=(lakesweep ${=1})
  COMP_CWORD=$(( $#COMP_WORDS - 1 ))
  () { emulate -L sh; setopt kshglob noshglob braceexpand nokshautoload; _lakesweep }  # as bashcompinit calls it
  print -l -- $COMPREPLY
}
"""


def test_each_shell_has_a_script() -> None:
    """Scripts for bash, zsh and fish are printed; another word is refused."""
    for shell in ("bash", "zsh", "fish"):
        answer = call("completion", shell)
        assert (answer.exit_code, answer.messages) == (0, "")
        assert "lakesweep --complete" in answer.printed
    answer = call("completion", "tcsh")
    assert answer.exit_code == 2
    assert answer.sentences == ["lakesweep: SHELL: expected bash, zsh, fish, found 'tcsh'"]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let progress show at once and often, and count what it shows."""
    for name in ("say", "show_status"):
        monkeypatch.setattr(progress, name, partial(_counted, getattr(progress, name)))
    monkeypatch.setattr(progress, "_FIRST_S", 0.0)
    monkeypatch.setattr(progress, "_AGAIN_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("LAKESWEEP_PROGRESS", raising=False)


@pytest.fixture
def window(at_once: None) -> Iterator[Terminal]:
    """A terminal of 40 columns that knows ASCII alone."""
    with terminal(40, "ascii") as opened:
        yield opened


SHOWN = [0]


def _counted(show: Callable[[str], None], text: str) -> None:
    show(text)
    SHOWN[0] += 1


def wait_for_progress() -> None:
    """Wait until progress was shown twice: the second time it began to show after this call."""
    before, until = SHOWN[0], time.monotonic() + 20
    while SHOWN[0] < before + 2 and time.monotonic() < until:
        time.sleep(0.005)


def work(counts: list[tuple[str, int, int | None]], sentence: str = "", *, is_shown: bool = True) -> None:
    """Do some work that takes a moment at each count."""
    counter = RequestCounter()
    pause = wait_for_progress if is_shown else partial(time.sleep, 0.05)
    with shown_progress("expire-snapshots", counter) as note:
        for count in counts:
            counter.add("get", 7)
            note(*count)
            pause()
        if sentence:
            say(sentence)
            pause()


def test_a_line_of_progress_names_what_is_counted_and_is_erased(window: Terminal) -> None:
    """The line fits the terminal, names its unit, gives way to a warning, and is gone at the end."""
    with contextlib.redirect_stderr(window.stream):
        work([("objects listed", 12000, None), ("objects deleted", 250, 1000)], "warning: S\u00e4ule")
    received = window.received()
    lines = received.replace("\n", "\r\x1b[K").split("\r\x1b[K")
    assert "12 000 objects listed, 0:00:00, 7 reque" in lines
    assert "[##........] 250 of 1 000 objects delet" in lines
    assert "\r\x1b[Klakesweep: \x1b[33mwarning:\x1b[0m S\\xe4ule\n" in received
    assert received.endswith("\r\x1b[K")
    assert max(map(len, lines)) < 40


def test_a_command_at_a_terminal_leaves_no_line(
    tmp_path: Path, window: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a command the terminal has its sentences alone, and standard output has one document."""
    write_table(tmp_path / "orders")
    sentences = call("explain", tmp_path / "orders").messages
    with contextlib.redirect_stderr(window.stream):
        assert main(["explain", str(tmp_path / "orders"), "--json"]) == 0
    assert window.received().rpartition("\r\x1b[K")[2] == sentences
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(("every", "term"), [("0", "xterm"), ("", "dumb")])
def test_a_terminal_without_progress(every: str, term: str, window: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that moves no cursor gets no line, nor does a person who wants none."""
    monkeypatch.setenv("LAKESWEEP_PROGRESS", every)
    monkeypatch.setenv("TERM", term)
    with contextlib.redirect_stderr(window.stream):
        work([("objects listed", 1, None)], is_shown=False)
    assert window.received() == ""


def test_plain_lines_of_progress_are_asked_for(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal nothing is printed, unless $LAKESWEEP_PROGRESS says how often."""
    messages = io.StringIO()
    with contextlib.redirect_stderr(messages):
        work([("objects listed", 1, None)], is_shown=False)
        assert messages.getvalue() == ""
        monkeypatch.setattr(progress, "_seconds", lambda: 0.02)
        work([("objects listed", 1, None)])
    first = messages.getvalue().splitlines()[0]
    assert first == "lakesweep: expire-snapshots: 1 objects listed, 0:00:00, 7 requests"


def test_a_wrong_period_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$LAKESWEEP_PROGRESS is a number of seconds."""
    monkeypatch.setenv("LAKESWEEP_PROGRESS", "often")
    answer = call("show", tmp_path)
    assert answer.exit_code == 2
    assert "expected seconds between lines of progress, or 0 for none, found 'often'" in answer.messages


def at_terminal(columns: int, *argv: object, encoding: str = "utf-8") -> str:
    """Run a command at a terminal and return what it printed there."""
    with terminal(columns, encoding) as opened, contextlib.redirect_stdout(opened.stream):
        main([str(word) for word in argv])
        return opened.received()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "orders", options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"})
    return tmp_path / "orders"


@pytest.mark.parametrize(
    ("command", "coloured"),
    [
        ("maintain", [": \x1b[36mplanned\x1b[0m", "\n\x1b[31mdelete\x1b[0m  ", "\n\x1b[32mkeep\x1b[0m  "]),
        ("check", [": \x1b[1;31mfindings\x1b[0m;", "\n\x1b[36mmend\x1b[0m  "]),
        ("explain", ["\n\x1b[1mREASON     OBJECTS  BYTES\x1b[0m\n"]),
    ],
)
def test_a_terminal_shows_the_same_text_in_colour(
    command: str, coloured: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colours mark status, deletions, headings and commands. Without them the text is that of a pipe."""
    monkeypatch.setenv("TERM", "xterm-256color")
    received = at_terminal(200, command, folder, "--control", folder.parent / "a")
    assert all(each in received for each in coloured)
    plain = call(command, folder, "--control", folder.parent / "a").printed
    assert _without_id(re.sub(r"\x1b\[[0-9;]*m", "", received)) == _without_id(plain)


def _without_id(text: str) -> str:
    return re.sub(r"\d{8}T\d{6}Z-\w+", "ID", text)


@pytest.mark.parametrize(
    ("environment", "more", "is_coloured"),
    [
        ({}, [], True),
        ({"NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, [], False),
        ({"FORCE_COLOR": "1"}, ["--json"], False),
    ],
)
def test_who_wants_no_colour_gets_none(
    environment: dict[str, str],
    more: list[str],
    is_coloured: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """$NO_COLOR, terminals without colours, and --json mean none, at a terminal too."""
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in at_terminal(80, "explain", folder, *more)) == is_coloured


def test_a_pipe_has_colours_only_by_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal $FORCE_COLOR asks for colours, in warnings too, but not beside --json."""
    monkeypatch.setenv("TERM", "xterm")
    write_table(tmp_path / "orders")
    assert "\x1b" not in "".join(call("explain", tmp_path / "orders").sentences)
    monkeypatch.setenv("FORCE_COLOR", "1")
    answer = call("explain", tmp_path / "orders")
    assert "\x1b[1mREASON" in answer.printed
    assert answer.messages.startswith("lakesweep: \x1b[33mwarning:\x1b[0m the schema")
    assert "\x1b" not in call("explain", tmp_path / "orders", "--json").messages


@pytest.mark.parametrize("line", ["[bold]x[/bold]: [red]done", "a\\x1b[31m: x", "delete-tag", "x: planned earlier"])
def test_text_of_a_table_is_no_style(line: str) -> None:
    """Names with markup or escaped control characters are printed as they are."""
    assert painted(line) == line


def test_a_narrow_terminal_breaks_lines_between_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 40 columns nothing is lost, only names are longer than a line, and the next command can be copied."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    plain = call("expire-snapshots", folder).printed
    received = at_terminal(40, "expire-snapshots", folder)
    assert _without_id(received).split() == _without_id(plain).split()
    lines = received.splitlines()
    assert all(len(line) <= 40 or " " not in line.strip() or line.startswith("next ") for line in lines)
    assert f"next       lakesweep execute {folder} " in received


def test_a_narrow_terminal_shows_each_row_as_a_block(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    plan_id = call("expire-snapshots", folder, "--json").document["plan_id"]
    lines = at_terminal(40, "plans", folder).splitlines()
    assert lines[:3] == [f"PLAN       {plan_id}", "OPERATION  expire-snapshots", "BRANCH     main"]
    assert lines[-1] == ""
    assert len(call("plans", folder).printed.splitlines()) == 2, "not a terminal"


def test_a_terminal_without_utf_8_gets_escapes(tmp_path: Path) -> None:
    """A name outside ASCII is printed, escaped, at a terminal that knows ASCII alone."""
    write_table(tmp_path / "säule")
    assert "s\\xe4ule: no branches" in at_terminal(200, "branches", tmp_path / "säule", encoding="ascii")
