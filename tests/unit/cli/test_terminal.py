"""What a person meets at a terminal: quick help, completion, narrow windows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.command_line import call

BIN = Path(sys.executable).parent

FOR_HELP = [
    "errors",
    "runs",
    "runs.parameters",
    "runs.parameters.parameter",
    "runs.parameters.signatures",
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
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    codes, packages, ours = json.loads(printed.splitlines()[-1])
    assert codes == [0, 0, 2, 2]
    assert packages == ["__main__", "annotated_doc", "lakesweep", "shellingham", "typer"]
    assert ours == FOR_HELP


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
        (["exp"], ["explain", "expire-snapshots", "expire-changelogs", "expire-tags"]),
        (["audit", ""], ["verify"]),
        (["show", "my table", "--j"], ["--json"]),
        (["show", ""], []),
        (["show", "a", "--branch", ""], []),
        (["no-such", "--he"], ["--help"]),
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


def test_each_shell_has_a_script() -> None:
    """Scripts for bash, zsh and fish are printed; another word is refused."""
    for shell in ("bash", "zsh", "fish"):
        answer = call("completion", shell)
        assert (answer.exit_code, answer.messages) == (0, "")
        assert "lakesweep --complete" in answer.printed
    answer = call("completion", "tcsh")
    assert answer.exit_code == 2
    assert answer.sentences == ["lakesweep: SHELL: expected bash, zsh, fish, found 'tcsh'"]
