"""Options that several commands share, and the place that they name."""

from dataclasses import dataclass
from typing import Annotated

import typer

TablePath = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A table directory: a local path or s3://bucket/prefix."),
]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="Branch of the table.")]
Control = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="LOCATION",
        help="Where plans, lease and ledger live: a local path or s3://bucket/prefix outside the table. "
        "Else $LAKESWEEP_CONTROL, else (for a local table) ~/.local/state/lakesweep.",
    ),
]
EndpointUrl = Annotated[
    str | None, typer.Option("--endpoint-url", metavar="URL", help="Endpoint of an S3-compatible store.")
]
Region = Annotated[str | None, typer.Option("--region", metavar="NAME", help="Region of the bucket.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document (docs/cli_json.md).")]
Execute = Annotated[bool, typer.Option("--execute", help="Carry the plan out; else nothing in the table changes.")]
TableOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="A table option for this call; repeatable."),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="LOCATION",
        help="Fleet policy (JSON): a local path or s3://bucket/key. Else $LAKESWEEP_POLICY.",
    ),
]
ProtectCommitUser = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-commit-user", metavar="USER", help="Keep the last snapshot of this commit user; repeatable."
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="List the newest N.")]


@dataclass(frozen=True, slots=True)
class Place:
    """A table, where its control documents live, and how the store is reached. As typed, not yet checked."""

    table: str
    branch: str = "main"
    control: str | None = None
    endpoint_url: str | None = None
    region: str | None = None
    as_json: bool = False
    policy: str | None = None
