"""Success files."""

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.documents import created_ms_of, success_body


def test_as_the_engine_writes_it() -> None:
    """Printed by Java."""
    assert success_body(1, 2) == b'{\n  "creationTime" : 1,\n  "modificationTime" : 2\n}'
    assert created_ms_of(success_body(1_700_000_000_000, 2), "p") == 1_700_000_000_000


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"creationTime": "1"}', b'{"creationTime": null}', b"\xff"])
def test_damaged(body: bytes) -> None:
    with pytest.raises(FormatError):
        created_ms_of(body, "p")
