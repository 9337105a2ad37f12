"""One bucket by two names: an access point's alias gives a table a second lease, so Lakesweep says so."""

import pytest

from lakesweep.storage.location import alias_warning


@pytest.mark.parametrize("bucket", ["lake-metadata1234-s3alias", "lake-abc--ol-s3"])
def test_aliases_are_named(bucket: str) -> None:
    assert bucket in (alias_warning(f"s3://{bucket}/db.db/t") or "")


@pytest.mark.parametrize("location", ["s3://lake/x-s3alias", "/data/x-s3alias", "s3://s3alias-lake/t"])
def test_other_names_are_not(location: str) -> None:
    assert alias_warning(location) is None
