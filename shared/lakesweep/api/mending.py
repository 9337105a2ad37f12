"""The commands that mend what `check` finds, as somebody types them after this call."""

import shlex
from collections.abc import Mapping
from typing import Any

from lakesweep.api.place import Place, words_of
from lakesweep.operations.inspect.health import OTHERWISE

_READING = ("plans", "runs")
"""Commands that do not use a fleet policy."""

_WITH_THEIR_OWN = ("lakesweep policy ", "lakesweep enable-events ")
"""Commands that state their policy, or take neither policy nor control location."""


def with_options(document: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """Return a document whose commands include the options of this call, such as its policy."""
    findings = [{**found, "mend": with_words(found["mend"], place)} for found in document["findings"]]
    return {**document, "findings": findings}


def with_options_in_lines(document: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """Return the document of `doctor`, whose commands include the options of this call."""
    lines = [{**line, "mend": line["mend"] and _of_table(line["mend"], place)} for line in document["lines"]]
    return {**document, "lines": lines}


def _of_table(mend: str, place: Place) -> str:
    """Return a command with the options of a call, if it is about the table and does not state them already."""
    return mend if mend.startswith(_WITH_THEIR_OWN) else with_words(mend, place)


def with_words(mend: str, place: Place) -> str:
    """Return a command with the options of a call, such as its policy."""
    before, program, rest = mend.partition("lakesweep ")
    if not program or (before and not before.endswith(f"; {OTHERWISE}: ")):
        return mend
    names = ("control", "local_control", "endpoint_url", "region")
    given = words_of(place, *(names if rest.split()[0] in _READING else ("policy", *names)))
    return f"{mend} {shlex.join(given)}" if given else mend
