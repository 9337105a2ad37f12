"""A tag of a later version, or one that is no document at all, holds back what it may need, and nothing else."""

import json
from collections.abc import Callable

import pytest

from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder

BODIES: dict[str, Callable[[bytes], bytes]] = {
    "a later version": lambda body: json.dumps({**json.loads(body), "version": 9}).encode(),
    "too large": lambda body: body + b" " * (1 << 25),
    "empty": lambda body: b"",
}


@pytest.mark.parametrize("what", BODIES)
def test_tags_that_hold_no_file_alone_go(what: str) -> None:
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    table.commit("+A")
    table.tag("alone", snapshot=1)
    table.commit("-A", "+B")
    table.tag("beside", snapshot=2)
    maintainer = Maintainer(store)
    assert maintainer.expire().status == "done"
    store.put("tag/tag-odd", BODIES[what](store.read("tag/tag-beside").data))

    refused = maintainer.run("delete-tag", tag="alone")
    assert refused.refusal is not None and refused.refusal.code == "unreadable_root", refused
    assert "tag/tag-odd" in refused.refusal.message
    kept = maintainer.run("delete-tag", tag="odd")
    assert kept.status == "nothing_to_do"
    assert any("tag/tag-odd" in warning for warning in kept.all_warnings())
    report = maintainer.run("expire-tags", pattern="[ab]*", keep_tag=["none"])
    assert report.status == "done"
    assert [entry.key for entry in store.list("tag/")] == ["tag/tag-alone", "tag/tag-odd"]
    read_root(store, "tag/tag-alone")
