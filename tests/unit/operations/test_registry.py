"""The registry: one name and one meaning for every caller."""

from collections.abc import Mapping

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.table_ref import TableRef
from lakesweep.operations.registry import OPERATIONS, Call, parse_call, run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

EXPIRE = OPERATIONS["expire_snapshots"]


def test_numbers_and_texts_mean_the_same() -> None:
    """A message has numbers, a command line has texts."""
    texts = {"retain_max": "5", "retain_min": " 2 ", "older_than": "1500", "max_deletes": "3", "grace": "2 s"}
    numbers = {"retain_max": 5, "retain_min": 2, "older_than": 1500, "max_deletes": 3, "grace": 2000}
    expected = Call(retain_max=5, retain_min=2, older_than_ms=1500, max_deletes=3, grace_ms=2000)
    assert parse_call(EXPIRE, texts) == parse_call(EXPIRE, numbers) == expected
    assert parse_call(EXPIRE, dict.fromkeys(texts)) == Call()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"retain_max": True}, "bad_argument"),
        ({"retain_max": 1.0}, "bad_argument"),
        ({"retain_max": [1]}, "bad_argument"),
        ({"retain_max": "1_000"}, "bad_argument"),
        ({"retain_max": "9" * 4000}, "bad_argument"),
        ({"older_than": True}, "bad_argument"),
        ({"older_than": -1}, "bad_argument"),
        ({"grace": {}}, "bad_argument"),
        ({"options": "snapshot.time-retained=1 d"}, "bad_argument"),
        ({"options": {"snapshot.time-retained": 1}}, "bad_argument"),
        ({"options": {"snapshot.time-retaind": "1 d"}}, "unknown_option"),
        ({"retain": 1}, "unknown_argument"),
    ],
)
def test_bad_arguments(arguments: Mapping[str, object], code: str) -> None:
    """What means nothing is refused before anything is read."""
    with pytest.raises(UsageError) as raised:
        parse_call(EXPIRE, arguments)
    assert raised.value.code == code


def test_operations_have_their_own_arguments() -> None:
    """`maintain` follows the table's options and takes no numbers."""
    with pytest.raises(UsageError, match="maintain has no argument 'retain_max'"):
        parse_call(OPERATIONS["maintain"], {"retain_max": 5})


def table_of(store: Store) -> Table:
    return Table(TableRef(store.location), store, None, lambda location: store)


def test_an_operation_by_name() -> None:
    """A dry run by name."""
    table = TableBuilder(MemoryStore())
    for number in range(4):
        table.commit(f"+F{number}")
    report = run_operation(
        table_of(table.store), "expire_snapshots", {"retain_min": 1, "retain_max": "2"}, execute=False
    )
    assert (report.operation, report.status) == ("expire_snapshots", "planned")
    assert report.to_json()["snapshots"] == {"earliest": 1, "latest": 4, "expired": [1, 2, 3]}


def test_no_such_operation() -> None:
    """The sentence says what there is."""
    with pytest.raises(UsageError, match=r"expected one of clear_consumers, .*expire_snapshots, .*maintain") as raised:
        run_operation(table_of(MemoryStore()), "expire-snapshots", {}, execute=False)
    assert raised.value.code == "unknown_operation"
