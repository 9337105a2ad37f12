"""The roots outside tables that a deployment allows: below them alone it may delete files of tables."""

from lakesweep.errors import UsageError
from lakesweep.storage.location import spell

EXTERNAL_ROOTS = "LAKESWEEP_EXTERNAL_ROOTS"
"""Environment variable: the roots that a deployment allows."""


def bound_of(text: str) -> tuple[str, ...]:
    """Read the roots that a deployment allows: locations, or `bucket/prefix`, separated by commas.

    Raises:
        UsageError: A root is not a location.
    """
    found = []
    for word in (each.strip() for each in text.split(",")):
        if word:
            try:
                found.append(spell(word if "://" in word or word.startswith("/") else f"s3://{word}"))
            except UsageError as error:
                raise UsageError(f"{EXTERNAL_ROOTS}: {error}", code="bad_setting") from error
    return tuple(dict.fromkeys(found))
