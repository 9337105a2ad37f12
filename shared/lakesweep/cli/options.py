"""Options that several commands share, each written once, and the `Place` that some of them describe."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer


def option(name: str, text: str, metavar: str | None = None) -> Any:
    """Return an option as the parser reads it."""
    return typer.Option(name, metavar=metavar, help=text)


TablePath = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A table directory: a local path or s3://bucket/prefix."),
]
Branch = Annotated[str, option("--branch", "Branch of the table.", "NAME")]
Control = Annotated[
    str | None,
    option(
        "--control",
        "Location of plans, lease and ledger: a local path or s3://bucket/prefix outside the table. By default "
        "$LAKESWEEP_CONTROL, else (for a local table) ~/.local/state/lakesweep.",
        "LOCATION",
    ),
]
LocalControl = Annotated[
    bool,
    option(
        "--local-control",
        "Accept a --control on this machine for a table in S3. Maintainers on other machines do not see its lease.",
    ),
]
EndpointUrl = Annotated[str | None, option("--endpoint-url", "Endpoint of an S3-compatible store.", "URL")]
Region = Annotated[str | None, option("--region", "Region of the bucket.", "NAME")]
ExternalRoot = Annotated[
    list[str] | None,
    option(
        "--external-root",
        "Allow deleting files outside the table below this location, if the table's schema declares an external "
        "path there; repeatable. All others are kept.",
        "LOCATION",
    ),
]
Json = Annotated[bool, option("--json", "Print one JSON document (docs/cli_json.md).")]
Execute = Annotated[bool, option("--execute", "Execute the plan; otherwise nothing in the table changes.")]
Policy = Annotated[
    str | None,
    option(
        "--policy", "Fleet policy (JSON): a local path or s3://bucket/key. By default $LAKESWEEP_POLICY.", "LOCATION"
    ),
]
Since = Annotated[
    str | None,
    option(
        "--since",
        "Only runs that began since then: an age such as '1 d', ISO-8601 with a zone, or epoch milliseconds.",
        "TIME",
    ),
]
To = Annotated[
    str | None, option("--to", "A new file that ends in .csv or .parquet; - for CSV on standard output.", "PATH")
]
Limit = Annotated[int, option("--limit", "List the newest N.", "N")]


@dataclass(frozen=True, slots=True)
class Place:
    """A table, its control location, and how to reach its store. As typed, not yet checked."""

    table: TablePath
    branch: Branch = "main"
    policy: Policy = None
    control: Control = None
    local_control: LocalControl = False
    external_root: ExternalRoot = None
    """Locations outside the table where files may be deleted."""
    endpoint_url: EndpointUrl = None
    region: Region = None
    as_json: Json = False
    all_branches: bool = False
    scan_id: str | None = None
    """Id of a scan on Spark or by functions."""
    engine: str | None = None
    """The backend that the call asks for."""
    scan_queue: str | None = None
    """URL of the queue at which a deployment takes scans."""

    def words(self, *names: str) -> list[str]:
        """Return options of this call as somebody types them into the next one, without passwords."""
        from lakesweep.api.place import words_of  # help needs no place

        return words_of(self, *names)


_ALWAYS = ("table", "endpoint_url", "region", "as_json")
_WITH = {"local_control": "control"}
"""Options that every command has with another option."""

P = ParamSpec("P")


def at_place(
    *options: str, more: Callable[..., Any] | None = None
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command TABLE and the options of a `Place`. The command gets the `Place` as its first argument.

    Args:
        options: Which of `branch`, `policy`, `control` and `external_root` the command has. Every command has the
            others.
        more: A dataclass of further options. The command gets one as its second argument.
    """

    def wrap(command: Callable[Concatenate[Place, P], int]) -> Callable[..., int]:
        known = _options_of(Place)
        names = tuple(name for name in known if _WITH.get(name, name) in (*_ALWAYS, *options))
        further = {} if more is None else _options_of(more)
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(command).parameters.values())[1 if more is None else 2 :]
        ]
        first = [known[name] for name in names if name in ("table", "branch")]
        rest = [known[name] for name in names if known[name] not in first]
        parameters = [*first, *own, *further.values(), *rest]

        @functools.wraps(command)
        def run(*args: P.args, **words: P.kwargs) -> int:
            typed = {name: words.pop(name) for name in names}
            # A command without --control writes nothing, so it may use any $LAKESWEEP_CONTROL.
            place = Place(**{"local_control": "control" not in options, **typed})  # type: ignore[arg-type]
            if more is not None:
                args = (more(**{name: words.pop(name) for name in further}), *args)  # type: ignore[assignment]
            return command(place, *args, **words)

        # The parser reads these two attributes.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return wrap


def _options_of(kind: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the fields of a dataclass as parameters that the parser reads."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {name: each.replace(kind=keyword) for name, each in inspect.signature(kind).parameters.items()}
