"""Which tables a control location has documents of, where these cannot be read."""

import pytest

from lakesweep.control.area import MAX_JSON_BYTES, ControlArea
from lakesweep.control.audit.tables import known_tables
from lakesweep.errors import AccessDeniedError
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body
from tests.support.memory_store import MemoryStore

TABLE = "s3://bucket/db.db/t"


class _Denying(MemoryStore):
    def read(self, key: str, max_bytes: int | None = None) -> Body:
        raise AccessDeniedError(f"read {key}: denied")


def test_a_report_that_may_not_be_read_is_no_unknown_table() -> None:
    """Else `runs` and `audit verify` would leave the table out, and end as if all were well."""
    store = _Denying("memory://control")
    ControlArea(store, TABLE).put("reports/a.json", b'{"report": {"table": "s3://bucket/db.db/t"}}')
    with pytest.raises(AccessDeniedError):
        list(known_tables(store))


def test_a_document_that_is_larger_than_any_says_nothing() -> None:
    """It is not loaded, and the next one says which table it is."""
    counter = RequestCounter()
    store = MemoryStore("memory://control", counter=counter)
    area = ControlArea(store, TABLE)
    area.put("reports/a.json", b"{" + b" " * MAX_JSON_BYTES)
    area.put("reports/b.json", b'{"report": {"table": "s3://bucket/db.db/t"}}')
    assert [(known.key, known.area) for known in known_tables(store)] == [(area.prefix.split("/")[1], area)]
    assert counter.read_bytes < MAX_JSON_BYTES
