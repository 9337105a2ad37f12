"""Make a command of the declared parameters of an operation."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from lakesweep.cli.options import Execute, Place, at_place
from lakesweep.runs.parameters.parameter import Kind, Parameter, Signature, flag, names, pairs, texts
from lakesweep.runs.parameters.partitions import partitions

_SEVERAL: tuple[Kind[Any], ...] = (names, texts, pairs, partitions)
"""Kinds of options that may be given several times."""
P = ParamSpec("P")
PLACE = ("branch", "policy", "control", "external_root")


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line as typed: the place, and the arguments that were given, by name."""

    signature: Signature
    place: Place
    values: dict[str, Any]
    execute: bool

    def run(self, place: Place | None = None, **how: Any) -> int:
        """Run the operation and return the exit code; see `run_named`."""
        from lakesweep.cli.operation import run_named

        values = {name: self.values.get(name) for name in self.signature.arguments if name != "options"}
        options = self.values.get("options")
        return run_named(place or self.place, self.signature.name, values, options, execute=self.execute, **how)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name is that of the function, with dashes."""

    function: Callable[..., int]
    """Its docstring is the help."""
    examples: Sequence[str]
    signature: Signature | None = None
    """The operation that it runs; `None`: it only reads, or it runs something else."""
    parsed: Callable[[Callable[..., int]], Callable[..., int]] = lambda function: function
    """Makes the function that the parser reads. This takes time, so only a command that is called has it made."""

    @property
    def name(self) -> str:
        """Return the word for the command."""
        return self.function.__name__.replace("_", "-")


def command(
    signature: Signature,
    *examples: str,
    place: Sequence[str] = PLACE,
    first: Sequence[Parameter[Any]] = (),
    last: Sequence[Parameter[Any]] = (),
) -> Callable[[Callable[[Typed], int]], Command]:
    """Make a command of a function: its docstring is the help, and the options are the operation's parameters.

    Args:
        signature: The operation.
        examples: Command lines for the help.
        place: Options of the place, see `at_place`.
        first: Options that only the command line has, before the others.
        last: The same, after the others.
    """

    def parsed(function: Callable[[Typed], int]) -> Callable[..., int]:
        def run(at: Place, /, execute: bool, **values: Any) -> int:
            given = {name: value for name, value in values.items() if value not in (None, False, [])}
            return function(Typed(signature, at, given, execute))

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [each for each in (*first, *signature.parameters, *last) if each.typed is not None]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("at", inspect.Parameter.POSITIONAL_ONLY),
                *map(_typed, parameters),
                inspect.Parameter("execute", keyword, annotation=Execute, default=False),
            ]
        )
        return at_place(*place)(run)

    return lambda function: Command(function, examples, signature, parsed)


def reads(
    *examples: str, place: Sequence[str], more: Callable[..., Any] | None = None
) -> Callable[[Callable[Concatenate[Place, P], int]], Command]:
    """Make a command of a function that runs no operation; see `at_place`."""
    return lambda function: Command(function, examples, None, at_place(*place, more=more))


def option_of(parameter: Parameter[Any]) -> Any:
    """Return the option for a declared parameter."""
    return typer.Option(parameter.typed, metavar=parameter.metavar or None, help=parameter.help)


def _typed(parameter: Parameter[Any]) -> inspect.Parameter:
    """Return a parameter as the parser reads it from a function. Values stay texts: the operation checks them."""
    is_several, is_flag = parameter.kind in _SEVERAL, parameter.kind is flag
    annotation: Any = Annotated[list[str] | None if is_several else str | None, option_of(parameter)]
    default: Any = None
    if is_flag:
        annotation, default = Annotated[bool, option_of(parameter)], False
    if parameter.is_positional:
        argument = typer.Argument(metavar=parameter.typed, help=parameter.help)
        is_list = str(parameter.typed).endswith("...")
        annotation, default = Annotated[list[str] if is_list else str, argument], inspect.Parameter.empty
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
