"""Parameters of operations: each is declared once, for the command line, for JSON and for the documentation.

The command line makes its options of them, an invocation is checked by them, and `docs/commands.md` shows them. So
this module imports little: `--help` needs it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from lakesweep.errors import UsageError
from lakesweep.runs.parameters.age import Age

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Parameter(Generic[T_co]):
    """One argument of an operation."""

    name: str
    """The name in JSON, as in Paimon's procedures. The option has the same name with dashes."""
    kind: "Kind[T_co]"
    help: str
    metavar: str
    """The word for a value on the command line."""
    typed: str | None
    """What a person types: an option, or the word for a positional argument. `None`: only JSON has this parameter."""
    is_own: bool = False
    """Only the call can give it: no table option and no policy has this name. So a message that names it means it."""
    is_plain: bool = False
    """Its name is a common word. In a message, it means the parameter only before a colon."""

    def says(self, text: str, **changes: Any) -> "Parameter[T_co]":
        """Return the same parameter with the help that another operation gives."""
        return replace(self, help=text, **changes)

    @property
    def is_positional(self) -> bool:
        """Tell whether the command line has a word for it, not an option."""
        return self.typed is not None and not self.typed.startswith("--")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A kind of values. A kind makes parameters: `count("retain_min", "Keep the newest N.")`."""

    says: str
    """What JSON has, for the documentation."""
    read: Callable[[object, str], T_co]
    """Reads a value of the parameter with this name. Raises `UsageError`."""
    default: T_co
    """The value of a parameter that is not given."""
    metavar: str = ""

    def __call__(
        self,
        name: str,
        text: str,
        metavar: str = "",
        *,
        typed: str | None = "",
        is_own: bool = False,
        is_plain: bool = False,
    ) -> Parameter[T_co]:
        """Declare a parameter of this kind."""
        option = f"--{name.replace('_', '-')}" if typed == "" else typed
        return Parameter(name, self, text, metavar or self.metavar, option, is_own, is_plain)


@dataclass(frozen=True, slots=True)
class Call:
    """The checked arguments of one call. A parameter that was not given has its kind's default."""

    values: Mapping[str, object]
    now_ms: Callable[[], int] = field(default=lambda: 0, compare=False)
    """The clock that ages count from: that of the table's store. Without it, nothing is older than an age."""

    def __getitem__(self, parameter: Parameter[T]) -> T:
        return cast("T", self.values.get(parameter.name, parameter.kind.default))

    def time_ms(self, parameter: "Parameter[int | Age | None]") -> int | None:
        """Return a time, counting an age back from now."""
        found = self[parameter]
        return found.before(self.now_ms()) if isinstance(found, Age) else found


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of an operation, and its parameters."""

    name: str
    parameters: tuple[Parameter[Any], ...]
    options: frozenset[str] = frozenset()
    """Table options that a call may set."""
    commits: bool | Parameter[Any] = False
    """A call commits a snapshot: always, or if it gives this argument. On AWS, one function alone may do that, or jobs
    on Spark."""
    needs_spark: bool = False
    """On AWS, only a job on Spark can carry it out, since functions lack what reads rows."""

    def has_commit(self, arguments: Mapping[str, object]) -> bool:
        """Tell whether a call with these arguments commits a snapshot."""
        if isinstance(self.commits, bool):
            return self.commits
        return arguments.get(self.commits.name) not in (None, False)

    @property
    def arguments(self) -> frozenset[str]:
        """Return the names of the parameters."""
        return frozenset(parameter.name for parameter in self.parameters)

    def parse(self, arguments: Mapping[str, object], now_ms: Callable[[], int] = lambda: 0) -> Call:
        """Check the arguments of a call; `None` counts as not given.

        Args:
            arguments: By name.
            now_ms: The clock that ages count from.

        Raises:
            UsageError: The operation does not have an argument, or a value is invalid.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        known = {parameter.name: parameter for parameter in (*self.parameters, EXTERNAL_ROOTS)}
        for name in given:
            if name not in known:
                raise UsageError(
                    f"{self.name} has no argument {name!r}; expected some of {', '.join(sorted(known))}",
                    code="unknown_argument",
                )
        call = Call({name: known[name].kind.read(value, name) for name, value in given.items()}, now_ms)
        for key in call[OPTIONS]:
            if key not in self.options:
                raise UsageError(
                    f"option {key!r} has no effect on {self.name}; expected one of {', '.join(sorted(self.options))}",
                    code="unknown_option",
                )
        return call


def stated(**arguments: object) -> dict[str, object]:
    """Return the arguments that a call gave, as its plan records them: neither `None` nor false nor empty."""
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}
    found = {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
    return {name: value for name, value in found.items() if value not in (None, [], {}) and value is not False}


def read_count(value: object, name: str) -> int:
    """Read a whole number, given as a number or as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    stripped = value.strip() if isinstance(value, str) else ""
    digits = stripped.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise bad_value(name, "a whole number", value)
    return int(stripped)


def read_text(value: object, name: str) -> str:
    """Read a text; a whole number is accepted, too."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise bad_value(name, "text", value)


def read_texts(value: object, name: str) -> tuple[str, ...]:
    """Read one text or several."""
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) and each.strip() for each in found):
        raise bad_value(name, "a text or an array of texts", value)
    return tuple(dict.fromkeys(found))


def read_names(value: object, name: str) -> tuple[str, ...]:
    """Read one name or several. A blank name is left to the operation, which says what it expects."""
    found = (value,) if isinstance(value, str | int) else value
    if not isinstance(found, list | tuple):
        raise bad_value(name, "a name", value)
    return tuple(dict.fromkeys(read_text(each, name) for each in found))


def read_flag(value: object, name: str) -> bool:
    """Read true or false, given as a JSON value or as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise bad_value(name, "true or false", value)


def read_options(value: object, name: str) -> Mapping[str, str]:
    """Read table options."""
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise bad_value(name, "keys and values that are text", value)
    return dict(value)


def read_time_ms(value: object, name: str) -> int:
    """Read a time. The parser is imported only now, so that `--help` stays quick."""
    from lakesweep.runs.parameters.times import parse_time_ms

    return parse_time_ms(read_text(value, name), name)


def read_past(value: object, name: str) -> int | Age:
    """Read a time, or an age."""
    from lakesweep.runs.parameters.times import parse_past

    return parse_past(read_text(value, name), name)


def read_span_ms(value: object, name: str) -> int:
    """Read a duration, of which people mean seconds if they leave out the unit."""
    from lakesweep.runs.parameters.times import parse_span_ms

    return parse_span_ms(read_text(value, name), name)


def read_days_ms(value: object, name: str) -> int:
    """Read a duration, of which people mean days if they leave out the unit."""
    from lakesweep.runs.parameters.times import parse_span_ms

    return parse_span_ms(read_text(value, name), name, "d")


def read_retained(value: object, name: str) -> Age:
    """Read how long to keep, as the age from which nothing is kept."""
    return Age(read_days_ms(value, name))


def read_age_ms(value: object, name: str) -> int:
    """Read a duration of at least 1 ms: 0 would delete every tag."""
    span_ms = read_days_ms(value, name)
    if span_ms < 1:
        raise bad_value(name, "a duration of at least 1 ms", value)
    return span_ms


def read_positive(value: object, name: str) -> int:
    """Read a whole number that is at least 1."""
    number = read_count(value, name)
    if number < 1:
        raise UsageError(f"{name}: expected a whole number, at least 1, found {number}", code="bad_argument")
    return number


def bad_value(name: str, expected: str, value: object) -> UsageError:
    """Return the error for an argument with a wrong value."""
    return UsageError(f"{name}: expected {expected}, found {value!r}", code="bad_argument")


count: Kind[int | None] = Kind("whole number", read_count, None, "N")
positive: Kind[int | None] = Kind("whole number from 1", read_positive, None, "N")
text: Kind[str | None] = Kind("text", read_text, None, "TEXT")
texts: Kind[tuple[str, ...]] = Kind("text or array of texts", read_texts, (), "TEXT")
names: Kind[tuple[str, ...]] = Kind("text or array of texts", read_names, (), "NAME")
flag = Kind("true or false", read_flag, default=False)
time: Kind[int | None] = Kind("time", read_time_ms, None, "TIME")
past: Kind[int | Age | None] = Kind("time or age", read_past, None, "TIME")
span: Kind[int | None] = Kind("duration", read_span_ms, None, "DURATION")
days: Kind[int | None] = Kind("duration", read_days_ms, None, "DURATION")
retained: Kind[int | Age | None] = Kind("duration", read_retained, None, "DURATION")
age: Kind[int | None] = Kind("duration", read_age_ms, None, "DURATION")
pairs: Kind[Mapping[str, str]] = Kind("object of texts", read_options, {}, "KEY=VALUE")

OPTIONS = pairs("options", "A table option for this call; repeatable.", typed="--option")
EXTERNAL_ROOTS = texts("external_roots", "Files outside the table may be deleted below these locations.", typed=None)
"""A parameter of every operation, since each first finishes the plan that another run began."""
