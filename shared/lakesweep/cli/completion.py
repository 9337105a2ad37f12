"""Completion in bash, zsh and fish: commands, options, some values. A TAB runs the parser alone, and reads no store."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

from lakesweep.cli.terminal.output import print_lines
from lakesweep.errors import UsageError

EXAMPLES = ("lakesweep completion bash", "lakesweep completion zsh", "lakesweep completion fish")
ASK = "--complete"
"""The scripts call `lakesweep --complete WORD...`. It prints what the last word may become."""

_BASH = f"""\
_lakesweep() {{
  local IFS=$'\\n'
  COMPREPLY=($(lakesweep {ASK} "${{COMP_WORDS[@]:1:$COMP_CWORD}}" 2>/dev/null))
}}
complete -o default -F _lakesweep lakesweep"""
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit; compinit }
autoload -Uz bashcompinit; bashcompinit"""
_FISH = f"complete -c lakesweep -a '(lakesweep {ASK} (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'"
_SCRIPTS = {"bash": _BASH, "zsh": f"{_ZSH}\n{_BASH}", "fish": _FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Print the script that completes commands and options with TAB.

    bash and zsh: add the line `eval "$(lakesweep completion bash)"`, or the same with zsh, to ~/.bashrc or ~/.zshrc.
    fish: store the script as ~/.config/fish/completions/lakesweep.fish.
    """
    if shell not in _SCRIPTS:
        raise UsageError(f"SHELL: expected {', '.join(_SCRIPTS)}, found {shell!r}")
    print_lines(_SCRIPTS[shell].splitlines())
    return 0


def candidates(parser: Any, words: Sequence[str]) -> Iterator[str]:
    """Yield what the last word may become: commands, options, and values of options that take one of few words."""
    *before, last = words or [""]
    command = parser
    for word in before:
        command = getattr(command, "commands", {}).get(word, command)
    options = [each for each in command.get_params(typer.Context(command)) if each.param_type_name == "option"]
    names = [name for each in options for name in each.opts if name.startswith("--")]
    found: Iterable[str] = names if last.startswith("-") else getattr(command, "commands", ())
    if before and any(before[-1] in each.opts and not each.is_flag for each in options):
        found = _values(command.name, before[-1])
    elif command.name == completion.__name__:
        found = _SCRIPTS
    for name in found:
        if name.startswith(last):
            yield name


def _values(command: str | None, option: str) -> Iterable[str]:
    """Return the words that an option takes, if they are few. Only what the option needs is imported."""
    if option == "--engine":
        return ("local", "lambda", "spark", "auto") if command == "remove-orphan-files" else ("local", "spark")
    if option == "--mode":
        return ("local", "distributed")
    if option == "--catalog-type":
        from lakesweep.model.policy import CATALOG_TYPES

        return CATALOG_TYPES
    if option == "--sort":
        from lakesweep.operations.overview.rules.order import ORDERS

        return ORDERS
    return ("act", "look") if option == "--fail-on" else ()
