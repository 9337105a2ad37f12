"""Sessions of boto3 that are made quickly: botocore parses the model of a service for each, and tests make hundreds."""

from functools import cache
from typing import Any

from botocore.loaders import JSONFileLoader

_load = JSONFileLoader.load_file


@cache
def _loaded(path: str) -> Any:
    return _load(JSONFileLoader(), path)


def parse_models_once() -> None:
    """Let all sessions of this process share what one of them has parsed; clients of a session share it anyway."""
    JSONFileLoader.load_file = lambda _, path: _loaded(path)  # type: ignore[method-assign]
