"""S3 for tests: moto, served to this process alone, and other servers that speak S3.

versitygw, a real server beside the simulation, is started by `tests.support.versitygw`.
"""

import functools
import itertools
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from lakesweep.storage.aws_client import make_client
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.connection import Connection
from lakesweep.storage.s3.object_reader import Access
from lakesweep.storage.s3.store import S3Store
from tests.support.moto_http import all_services, serve

OTHER_ENDPOINT = os.environ.get("LAKESWEEP_TEST_S3_ENDPOINT", "")
"""Another S3 to hold to the same guarantees, with LAKESWEEP_TEST_S3_ACCESS_KEY, ..._SECRET_KEY and ..._REGION.
..._CHECKS_ETAGS=0 says that it ignores the ETags of a DeleteObjects request."""

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class S3Server:
    """One server, as clients reach it, and how it is known to differ from AWS."""

    name: str
    endpoint: str
    access_key: str = "testing"
    secret_key: str = "testing"
    region: str = "us-east-1"
    checks_etags_of_many: bool = True
    """DeleteObjects spares a key whose ETag is another one than the request says."""
    deletes_at_once: bool = True
    """Nothing comes between looking at the condition of a delete and deleting."""

    @property
    def settings(self) -> StoreSettings:
        """Return the settings that open stores in it, with the credentials of the environment."""
        return StoreSettings(endpoint_url=self.endpoint, region=self.region)

    @property
    def client(self) -> Any:
        """Return a client of it, with its own credentials."""
        return _client_of(self)

    def bucket(self, *, versioned: bool = False) -> str:
        """Make a bucket that nobody used before and return its name."""
        name = fresh_bucket(self.client)
        if versioned:
            self.client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return name

    def store(
        self,
        prefix: str = "root",
        *,
        bucket: str | None = None,
        counter: RequestCounter | None = None,
        reader: str = "botocore",
    ) -> S3Store:
        """Return a store in it, in a bucket of its own unless one is given, and with one of the two readers."""
        client = self.client if reader == "botocore" else _connection_of(self)
        return S3Store(bucket or self.bucket(), prefix, client, counter)

    def seed(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Put many objects at once."""
        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(self.client.put_object, Bucket=bucket, Key=k, Body=d) for k, d in objects.items()]
        for each in found:
            each.result()


@functools.cache
def _client_of(server: S3Server) -> Any:
    session = boto3.Session(server.access_key, server.secret_key, region_name=server.region)
    return make_client(endpoint_url=server.endpoint, session=session)


@functools.cache
def _connection_of(server: S3Server) -> Connection:
    credentials = {"access_key_id": server.access_key, "secret_access_key": server.secret_key}
    client = server.client
    return Connection(
        lambda _: client, lambda bucket: Access(f"{server.endpoint}/{bucket}", server.region, credentials)
    )


@functools.cache
def moto_endpoint() -> str:
    """Return the URL of moto, started once per process. It ends with the process."""
    return serve(all_services())


def moto_settings() -> StoreSettings:
    """Return the settings that open stores in moto."""
    return StoreSettings(endpoint_url=moto_endpoint(), region="us-east-1")


def moto_client() -> Any:
    """Return a plain boto3 client of moto, to look behind the stores' backs."""
    return boto3.client("s3", endpoint_url=moto_endpoint(), region_name="us-east-1")


def fresh_bucket(client: Any = None) -> str:
    """Make a bucket that nobody used before and return its name."""
    name = f"lakesweep-test-{os.getpid()}-{next(_numbers)}-{uuid4().hex[:8]}"
    if client is None:  # past HTTP, as it is done very often
        _moto_backend().create_bucket(name, "us-east-1")
    else:
        client.create_bucket(Bucket=name)
    return name


def versioned_bucket() -> str:
    """Make a bucket that keeps versions and return its name."""
    name = fresh_bucket()
    _moto_backend().put_bucket_versioning(name, "Enabled")
    return name


def moto_store(prefix: str = "root", counter: RequestCounter | None = None, bucket: str | None = None) -> S3Store:
    """Return a store in moto, in a bucket of its own unless one is given."""
    store = open_store(f"s3://{bucket or fresh_bucket()}/{prefix}", counter=counter, settings=moto_settings())
    assert isinstance(store, S3Store)
    return store


def seed_moto(bucket: str, keys: Iterable[str], data: bytes = b"x") -> None:
    """Put objects past HTTP: thousands in a second."""
    backend = _moto_backend()
    for key in keys:
        backend.put_object(bucket, key, data)


def _moto_backend() -> Any:
    moto_endpoint()  # it must be there first: starting it may set up everything anew
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def moto_server() -> S3Server:
    """Return moto as one server among others."""
    return S3Server("moto", moto_endpoint(), checks_etags_of_many=False)


def other_server() -> S3Server:
    """Return the S3 that the environment names."""
    return S3Server(
        "other S3",
        OTHER_ENDPOINT,
        os.environ.get("LAKESWEEP_TEST_S3_ACCESS_KEY", "testing"),
        os.environ.get("LAKESWEEP_TEST_S3_SECRET_KEY", "testing"),
        os.environ.get("LAKESWEEP_TEST_S3_REGION", "us-east-1"),
        checks_etags_of_many=os.environ.get("LAKESWEEP_TEST_S3_CHECKS_ETAGS", "1") != "0",
    )
