"""What fault tests share."""

from collections.abc import Iterator

import pytest

from tests.support.s3_readers import READERS, reading_by


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a reader of the S3 store; stores that a test opens read by it."""
    with reading_by(request.param):
        yield request.param
