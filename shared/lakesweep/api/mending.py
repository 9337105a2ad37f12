"""The commands that mend what `check` finds, as somebody types them after this call."""

import shlex
from collections.abc import Mapping
from typing import Any

from lakesweep.api.place import Place, words_of
from lakesweep.operations.inspect.health import OTHERWISE

_READING = ("plans", "runs")
"""Commands that do not use a fleet policy."""


def with_options(document: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """Return a document whose commands include the options of this call, such as its policy."""
    findings = [{**found, "mend": with_words(found["mend"], place)} for found in document["findings"]]
    return {**document, "findings": findings}


def with_words(mend: str, place: Place) -> str:
    """Return a command with the options of a call, such as its policy."""
    before, program, rest = mend.partition("lakesweep ")
    if not program or (before and not before.endswith(f"; {OTHERWISE}: ")):
        return mend
    names = ("control", "local_control", "endpoint_url", "region")
    given = words_of(place, *(names if rest.split()[0] in _READING else ("policy", *names)))
    return f"{mend} {shlex.join(given)}" if given else mend
