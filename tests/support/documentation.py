"""What the documentation says."""

import re

from tests.conftest import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "cli_json.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text below a heading, up to the next heading of any level."""
    return re.split(r"^#+ ", DOCUMENT.split(f" {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
