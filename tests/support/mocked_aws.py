"""AWS inside this process, by moto's `mock_aws`, which replaces botocore's requests and no others."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto import mock_aws

from lakesweep.storage.open import _client


@contextmanager
def mocked_aws() -> Iterator[None]:
    """Let botocore read objects in the block, since moto does not see obstore's requests."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("LAKESWEEP_S3_READER", "botocore")
        _client.cache_clear()
        yield
        _client.cache_clear()
