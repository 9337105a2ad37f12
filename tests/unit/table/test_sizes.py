"""Which sizes metadata states of files."""

import pytest

from lakesweep.format.manifest import ManifestEntry
from lakesweep.table.reach.completeness import NamedSizes, stated_size


def entry(name: str, size: int, external_path: str | None = None) -> ManifestEntry:
    return ManifestEntry(True, b"", 0, 0, name, size, (), None, external_path, None, 1)


@pytest.mark.parametrize(
    "name", ["compacted-changelog-0a$0-10.cc-parquet", "compacted-changelog-0a$0-10-10-5.cc-parquet"]
)
def test_a_share_of_a_compacted_changelog_states_no_size_of_its_file(name: str) -> None:
    """Its entry keeps the size of the file that was compacted away."""
    assert stated_size(entry(name, 10)) is None
    assert stated_size(entry("data-0.parquet", 10, f"s3://b/t/bucket-0/{name}")) is None


def test_two_sizes_of_one_name_say_nothing() -> None:
    sizes = NamedSizes()
    sizes.note(entry("data-0.parquet", 10))
    assert sizes.differs("bucket-0/data-0.parquet", 9)
    sizes.note(entry("data-0.parquet", 9))
    assert not sizes.differs("bucket-0/data-0.parquet", 9)
    assert not sizes.differs("bucket-0/data-0.parquet", 8)
