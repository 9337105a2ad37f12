"""How this process reaches S3: botocore's client, and readers of buckets with the same endpoint and credentials.

botocore takes a quarter of a second to import. So its client is made when a request needs it, if the environment alone
says which server and credentials botocore would take. Otherwise the client is made at once: its errors are about
settings, and the readers take from it what it has found.
"""

import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from lakesweep.errors import UsageError
from lakesweep.model.safety import MAX_ATTEMPTS
from lakesweep.storage.aws_client import make_client, new_session
from lakesweep.storage.clock import wall_ms
from lakesweep.storage.s3.environment import AWS, aws_url, is_for_headers, plain_access, session_of
from lakesweep.storage.s3.object_reader import Access, ObjectReader

READER = "LAKESWEEP_S3_READER"
"""Who reads objects: `obstore` or `botocore`."""
_READERS = ("obstore", "botocore")
_CERTIFICATES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
"""Certificates that obstore does not know."""
_HOST = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
"""Buckets that can be a part of a host. Other names would change there: hosts have no capital letters."""
_BUCKETS = 10
"""Readers that are kept, as many as hosts in a pool of botocore: each keeps the connections of all threads open."""
_DIRECTORY_BUCKET = "--x-s3"
_GLOBAL = f"s3{AWS}"
_CREDENTIALS_S = 305
"""obstore asks again for credentials five minutes before they expire, so after five seconds. botocore renews them."""


@dataclass(frozen=True, slots=True)
class _Clients:
    """The clients of one process by their number of attempts."""

    made: dict[int, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    process: int = field(default_factory=os.getpid)


class Connection:
    """One S3 server as one identity sees it."""

    def __init__(
        self, make: Callable[[int], Any], access: Callable[[str], Access | None], endpoint_url: str = ""
    ) -> None:
        """Build a connection; this sends no request.

        Args:
            make: Makes botocore's client for a number of attempts.
            access: Tells how obstore reaches a bucket; `None`: botocore reads its objects.
            endpoint_url: The URL of the server; empty if the client knows it.
        """
        self._make = make
        self._access = access
        self._endpoint_url = endpoint_url
        self._readers: dict[str, ObjectReader | None] = {}
        self._clients = _Clients()

    @staticmethod
    def of(client: Any) -> "Connection":
        """Return the connection of a client of botocore, which reads objects, too."""
        return Connection(lambda _: client, lambda _: None)

    def client(self, attempts: int = MAX_ATTEMPTS) -> Any:
        """Return botocore's client that makes so many attempts.

        A process that was forked gets clients of its own. On the connections of another process, each of the two would
        get answers to the other's requests.
        """
        if self._clients.process != os.getpid():
            self._clients = _Clients()
        clients = self._clients
        found = clients.made.get(attempts)
        if found is None:
            with clients.lock:
                found = clients.made.get(attempts) or self._make(attempts)
                clients.made[attempts] = found
        return found

    @property
    def endpoint_url(self) -> str:
        """The URL of the server."""
        return self._endpoint_url or str(self.client().meta.endpoint_url)

    def reader(self, bucket: str) -> ObjectReader | None:
        """Return the reader of a bucket; `None`: botocore reads its objects."""
        if bucket in self._readers:
            return self._readers.get(bucket)
        access = self._access(bucket)
        found = self._readers[bucket] = None if access is None else ObjectReader(bucket, access)
        for oldest in list(self._readers)[:-_BUCKETS]:
            self._readers.pop(oldest, None)
        return found


def connect(
    endpoint_url: str | None, region: str | None, max_parallel: int, environment: Mapping[str, str] | None = None
) -> Connection:
    """Return a connection with the usual configuration of AWS.

    Args:
        endpoint_url: A server other than AWS, beside the usual configuration.
        region: Used if the usual configuration names none.
        max_parallel: Number of open connections.
        environment: Used instead of the process's environment.

    Raises:
        UsageError: A setting is not valid.
    """
    environment = os.environ if environment is None else environment
    chosen = environment.get(READER) or _READERS[0]
    if chosen not in _READERS:
        raise UsageError(f"${READER}: expected {' or '.join(_READERS)}, found {chosen!r}", code="store_settings")
    sessions: dict[int, Any] = {}
    """By process: in a process that was forked, the locks of the first one's session may stay closed."""

    def make(attempts: int) -> Any:
        session = sessions.get(os.getpid())
        if session is None:
            session = sessions[os.getpid()] = new_session() if plain is None else session_of(plain)
        url = endpoint_url if plain is None or plain.url == aws_url(plain.region) else plain.url
        return make_client(url, region if plain is None else plain.region, max_parallel, session, attempts)

    def access(bucket: str) -> Access | None:
        if chosen == "botocore" or bucket.endswith(_DIRECTORY_BUCKET):
            return None
        client = None if plain else connection.client()
        found = _below(plain, bucket) if plain else _as_botocore(client, sessions[os.getpid()], bucket)
        return found if found is not None and _is_within_reach(found.url, environment) else None

    plain = None if chosen == "botocore" else plain_access(endpoint_url, region, environment)
    connection = Connection(make, access, plain.url if plain else "")
    if plain is None:
        connection.client()  # Its errors are about settings, so they come before other errors.
    return connection


def _below(server: Access, bucket: str) -> Access:
    """Return the access to a bucket: AWS has it as a host, other servers as a folder."""
    parts = urlsplit(server.url)
    host = parts.hostname or ""
    if host == f"s3.{server.region}{AWS}" and _HOST.fullmatch(bucket):
        url = f"{parts.scheme}://{bucket}.{parts.netloc}"
    else:
        url = f"{server.url.rstrip('/')}/{bucket}"
    return Access(url, server.region, server.credentials)


def _is_within_reach(url: str, environment: Mapping[str, str]) -> bool:
    """Tell whether obstore reaches a server as botocore does: directly, and with certificates that it knows."""
    parts = urlsplit(url)
    if parts.scheme == "https" and any(environment.get(name) for name in _CERTIFICATES):
        return False
    if not any(value and name.lower().endswith("_proxy") for name, value in environment.items()):
        return True
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    return parts.scheme not in proxies or bool(proxy_bypass(parts.netloc))  # as botocore does


def _as_botocore(client: Any, session: Any, bucket: str) -> Access | None:
    """Return the access with which botocore reads a bucket; `None` if obstore cannot do the same."""
    from botocore.exceptions import BotoCoreError

    try:
        found = session.get_credentials()
        signed = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    except (BotoCoreError, ValueError):
        return None  # botocore has the right error when it reads.
    parts = urlsplit(signed)
    region = client.meta.region_name
    if found is None or not region or not parts.path.endswith("/k"):
        return None
    if not all(is_for_headers(word or "") for word in found.get_frozen_credentials()[:3]):
        return None
    if parts.scheme == "https" and session.get_config_variable("ca_bundle"):
        return None
    host = parts.netloc
    if host.endswith(_GLOBAL):  # Only signed URLs name it. Without the region, S3 may redirect.
        host = host.removesuffix(_GLOBAL) + urlsplit(client.meta.endpoint_url).netloc
    url = f"{parts.scheme}://{host}{parts.path.removesuffix('/k')}"
    return Access(url, "us-east-1" if region == "aws-global" else region, lambda: _current(found))


def _current(credentials: Any) -> Mapping[str, Any]:
    """Return credentials in obstore's form. botocore renews them if they expire soon."""
    now = credentials.get_frozen_credentials()
    return {
        "access_key_id": now.access_key,
        "secret_access_key": now.secret_key,
        "token": now.token or None,
        "expires_at": datetime.fromtimestamp(wall_ms() / 1000 + _CREDENTIALS_S, UTC),
    }
