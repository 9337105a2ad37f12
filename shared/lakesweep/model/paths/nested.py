"""The keys in a listing that show another table below this one."""

import re

_NAMES = ("schema-", "snapshot-", "tag-", "changelog-")
_DOCUMENT = re.compile(
    r"(?P<folder>.+?)/(?:branch/branch-[^/]+/)?"
    r"(?:schema/schema-[0-9]+|snapshot/snapshot-[0-9]+|changelog/changelog-[0-9]+|tag/tag-[^/]+)",
    re.DOTALL,
)


def nested_folder(key: str) -> str | None:
    """Return the folder of another table below this one, if a key is a schema or a root of that table.

    A root alone is enough: a table whose schemas are lost still has live files, and schemas can be restored.
    """
    # The expression alone takes a microsecond.
    if not key[key.rfind("/") + 1 :].startswith(_NAMES) or key.startswith("branch/"):
        return None
    match = _DOCUMENT.fullmatch(key)
    return match["folder"] if match else None
