"""What an erasure has done, and where the rows still are, as text."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
FIRST = 40
"""Places that are shown of each state."""
_WORDS = {"there": "still in", "unknown": "may be in", "gone": "gone from"}


def erasure_lines(commits: Document, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact about an erasure; an empty word continues a list.

    Args:
        commits: `commits` of a report; see `ErasureReport.to_json`.
        words: `time`: when the last place lets go of the rows by age alone.
    """
    erased = commits["erased_files"]
    may_be = f", and {erased['may_be']} that could not be searched" if erased["may_be"] else ""
    if commits["condition"]:
        zone = "" if commits["time_zone"] is None else f"; its times are times of the zone {commits['time_zone']}"
        yield "condition", commits["condition"] + zone
    yield "rows in", f"{_counted(erased['files'], 'data file')} of all versions{may_be}"
    if erased["unread"]:
        yield "unread", f"{', '.join(erased['unread'])}: files that only these name are not known"
    yield from place_lines(commits["places"])
    if commits["until_ms"] is not None:
        yield "until", f"{words['time']} at the earliest; each place says what else it waits for"
    if commits["erasure"] is not None:
        yield "erasure", commits["erasure"]


def place_lines(places: list[Document]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each place, those that still have the rows first."""
    for state, word in _WORDS.items():
        found = [each for each in places if each["state"] == state]
        if state == "gone" and found:
            yield word, ", ".join(each["words"] for each in found)
            continue
        for each in found[:FIRST]:
            yield word, _place(each)
        if len(found) > FIRST:
            yield word, f"{len(found) - FIRST} more places"


def _place(place: Document) -> str:
    kept = "" if place["until"] is None else f"; kept {place['until']}"
    ends = "" if place["ends"] is None else f" ({place['ends']})"
    why = "" if place["why"] is None else f": {place['why']}"
    return f"{place['words']}{why}{kept}{ends}"


def proof_lines(document: Document, time: Callable[[int | None], str]) -> Iterator[tuple[str, str]]:
    """Return a word and a sentence for each fact of a proof.

    Args:
        document: See `proof_of`.
        time: Renders a time.
    """
    yield "table", f"{document['table']}, branch {document['branch']}"
    yield "erasure", document["erasure"]
    yield "state", document["state"].replace("_", " ")
    if document["condition"] is not None:
        zone = "" if document["time_zone"] is None else f"; its times are times of the zone {document['time_zone']}"
        yield "condition", document["condition"] + zone
    yield "searched", f"{time(document['searched_ms'])}: {_counted(len(document['files']), 'data file')} had such rows"
    for each in document["changes"]:
        yield "changed", f"{time(each['at_ms'])}: {_change(each)}, by {each['by']}"
    yield "looked", time(document["looked_ms"])
    yield from place_lines([*document["there"], *document["unknown"], *document["gone"]])
    for each in document["cannot_tell"]:
        yield "unknown", each
    yield "sha256", document["sha256"]


def _change(change: Document) -> str:
    made = f", snapshot {', '.join(map(str, change['snapshots']))}" if change["snapshots"] else ""
    rows = f", {_counted(change['rows'], 'row')}" if change["rows"] else ""
    files = f", {_counted(change['files'], 'file')}" if change["files"] else ""
    return f"{change['operation']} of branch {change['branch']} {change['status'].replace('_', ' ')}{made}{rows}{files}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
