"""The JSON of the fleet policy: each key once, no unknown key, and the error that names a place in it."""

import json
from collections.abc import Mapping
from typing import NoReturn

from lakesweep.errors import FormatError, UsageError
from lakesweep.format.values.json_document import describe, parse_object, shorten


def document_of(body: bytes, location: str) -> dict[str, object]:
    """Read the document.

    Raises:
        UsageError: It is no JSON object, or gives a key twice.
    """
    try:
        document = parse_object(body, location)
        # Parse again to find keys that are given twice: of `"pause": true, "pause": false` neither may be chosen.
        json.loads(body, object_pairs_hook=_once)
    except FormatError as error:
        raise UsageError(f"policy {error}", code="bad_policy") from error
    except KeyError as error:
        raise UsageError(
            f"policy {location}: expected each key once, found {error} twice", code="bad_policy"
        ) from error
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def check_keys(document: Mapping[str, object], known: tuple[str, ...], location: str, at: str) -> None:
    """Raise UsageError for a key that is not known.

    Args:
        document: An object of the policy.
        known: Its possible keys.
        location: Of the policy.
        at: The place of the object, with a dot; empty for the whole document.
    """
    for key in document:
        if key not in known:
            expected = ", ".join(at + name for name in known)
            raise UsageError(
                f"policy {location}: expected some of {expected}, found {shorten(at + key)}", code="bad_policy"
            )


def refuse(location: str, at: str, expected: str, found: object) -> NoReturn:
    """Raise the error for a value at a place."""
    raise bad_policy(location, at, expected, found)


def bad_policy(location: str, at: str, expected: str, found: object) -> UsageError:
    """Return the error for a value at a place."""
    return UsageError(f"policy {location}: {at}: expected {expected}, found {describe(found)}", code="bad_policy")
