"""The commands that mend what `check` finds, as somebody types them after this call."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from lakesweep.api.place import Place, words_of
from lakesweep.operations.inspect.health import OTHERWISE

_CONTROL = ("control", "local_control")
_NOT_TAKEN: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("branches", "plans", "read", "report", "runs"), ("policy",)),
    **dict.fromkeys(("show", "tags"), _CONTROL),
    "files": ("policy", *_CONTROL),
}
"""The options of a place that a command does not take, or does not need."""

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
    not_taken = _NOT_TAKEN.get(rest.split()[0], ())
    names = ("policy", *_CONTROL, "endpoint_url", "region")
    given = words_of(place, *(name for name in names if name not in not_taken))
    return f"{mend} {shlex.join(given)}" if given else mend
