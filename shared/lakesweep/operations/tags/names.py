"""Names of tags: which are refused, and which are unwise."""

import unicodedata

from lakesweep.errors import UsageError
from lakesweep.format.values.json_document import shorten

MAX_NAME_BYTES = 200
"""The name of a tag is part of file names. Local file systems allow 255 bytes for these."""


def check_tag_name(name: str, argument: str = "tag") -> tuple[str, ...]:
    """Refuse a name that could be read as something else, and return a warning about an unwise name.

    Args:
        name: The name of the new tag.
        argument: The argument that gives it, for the message.

    Raises:
        UsageError: With code `bad_tag_name`.
    """
    if problem := name_problem(name):
        raise UsageError(
            f"tag {shorten(ascii(name))}: expected a name without {problem}"
            if name.strip()
            else f"{argument}: expected a name, found none",
            code="bad_tag_name",
        )
    if name.isascii() and name.isdigit():
        return (
            f"tag {name!r} is a number: where a version is given as text, such as VERSION AS OF '{name}', it hides "
            f"the snapshot {name}",
        )
    return ()


def name_problem(name: str) -> str | None:
    """Return what a name must not have, `None` for a valid name."""
    if not name.strip():
        return "nothing in it"
    if "/" in name:
        return "a slash: it would lie in another folder"
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in name):
        return "control characters and others that cannot be seen"
    if name in (".", ".."):
        return "a meaning for file systems"
    if name.startswith("success-file"):
        return "success-file at its beginning: success files lie there"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"more than {MAX_NAME_BYTES} bytes"
    return None
