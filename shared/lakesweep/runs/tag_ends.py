"""Make sure that a pass runs when the time to live of a manual tag is over.

The state of the last pass says when the clock next makes or ends a tag. If nobody commits, the table sweep asks for
passes by that time alone. The state does not know a tag that was made later.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from lakesweep.control.state import always_due, read_states, write_state
from lakesweep.errors import MaintenanceError
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Put, to_bytes
from lakesweep.runs.session import Table
from lakesweep.runs.tag_documents import TAG

_MS_NS = 1_000_000


def note_ends(table: Table, made: Iterable[Put]) -> None:
    """Record when the first of these tags is over, unless a pass is due before. Tags without a time to live never are.

    If this fails, the first pass that lists tags deletes the tag, as it does with tags from other programs.

    Args:
        table: The branch of the tags, with its control location.
        made: The actions that have just written them.
    """
    spans = [
        tag.time_retained_ns // _MS_NS
        for put in made
        if put.kind == TAG and (tag := parse_tag(to_bytes(put.body), put.path)).time_retained_ns is not None
    ]
    if not spans or table.area is None:
        return
    ends_ms = table.store.now_ms() + min(spans)
    with suppress(MaintenanceError):
        states = read_states(table.area)
        known = states.get(table.ref.branch) or always_due(0, 0)
        if ends_ms < known.tags_due_ms:
            write_state(table.area, {**states, table.ref.branch: replace(known, tags_due_ms=ends_ms)})
