"""How a table's options want its manifests written."""

import pytest

from lakesweep.commit.manifest_options import Manifests, manifests_of
from lakesweep.errors import RefusedError


@pytest.mark.parametrize(
    ("options", "manifests"),
    [
        ({}, Manifests("zstandard", 1, 8 << 20)),
        ({"file.compression.zstd-level": "9", "manifest.target-file-size": "1 kb"}, Manifests("zstandard", 9, 1024)),
        ({"manifest.compression": "deflate", "file.compression.zstd-level": "1"}, Manifests("deflate", None, 8 << 20)),
        ({"manifest.compression": "null"}, Manifests("null", None, 8 << 20)),
        ({"manifest.target-file-size": "0 b"}, Manifests("zstandard", 1, 1)),
    ],
    ids=["default", "zstd", "deflate", "null", "nothing"],
)
def test_options(options: dict[str, str], manifests: Manifests) -> None:
    """The level is one of Zstandard; at level 1, deflate would double some manifests."""
    assert manifests_of(options) == manifests


@pytest.mark.parametrize("option", ["manifest.target-file-size", "file.compression.zstd-level"])
def test_what_does_not_parse_is_refused(option: str) -> None:
    with pytest.raises(RefusedError, match=option):
        manifests_of({option: "much"})
