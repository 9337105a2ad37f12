"""One prefix of one bucket: how requests are sent to it, and what its clock says."""

from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from lakesweep.errors import StorageError
from lakesweep.model.safety import MAX_ATTEMPTS
from lakesweep.storage.aws_client import s3_request
from lakesweep.storage.clock import CLOCKS
from lakesweep.storage.guard import Guard
from lakesweep.storage.keys import check_key
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.s3.connection import Connection

_AWS = (".amazonaws.com", ".amazonaws.com.cn")


class S3Place:
    """Sends requests, counts them, and notes the time of each answer."""

    def __init__(self, bucket: str, prefix: str, client: Any, counter: RequestCounter | None = None) -> None:
        """Build a store; this sends no request.

        Args:
            bucket: Its name.
            prefix: The root's key, outer slashes do not matter; `""` for the whole bucket.
            client: A connection from `connect`, or a client from `make_client`, which then reads objects, too.
            counter: Counts attempts, deleted keys and bytes read.
        """
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._s3 = client if isinstance(client, Connection) else Connection.of(client)
        self._counter = counter or RequestCounter()
        self._clock: tuple[str, float] | None = None

    @property
    def location(self) -> str:
        """Return `s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def endpoint(self) -> str:
        """Return the S3 server in one spelling and without a password; empty for AWS."""
        place = urlsplit(self._s3.endpoint_url)
        host = (place.hostname or "").lower()
        if host.endswith(_AWS):
            return ""
        port = place.port or (443 if place.scheme == "https" else 80)
        return f"{host}:{port}{place.path.rstrip('/')}"

    def _ask(
        self,
        operation: str,
        where: str,
        call: str,
        guard: Guard | None = None,
        *,
        tried_since_s: float = 0.0,
        **words: Any,
    ) -> Any:
        """Send one request and return its answer.

        Args:
            operation: What is done, for messages.
            where: To what, for messages.
            call: The client's method.
            guard: Asked before each attempt.
            tried_since_s: When another attempt of this request began, which has failed; 0 if there was none.
            words: Parameters of the method beside the bucket.
        """
        client = self._s3.client(MAX_ATTEMPTS - 1 if tried_since_s else MAX_ATTEMPTS)
        with s3_request(operation, where, self._counter, guard, tried_since_s):
            response = getattr(client, call)(Bucket=self._bucket, **words)
        date = response["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if date:
            self._clock = (date, CLOCKS.boot_s())
        return response

    def now_ms(self) -> int:
        """Return S3's clock: the Date header of botocore's latest answer, plus the time since it arrived.

        Without an answer yet, this sends a request. The header has whole seconds and takes a while to arrive. So the
        result is up to about one second behind S3, and never ahead: objects appear younger than they are. Reads through
        obstore bring no time. If the machine was suspended and its clock stood still, the result is further behind
        until the next listing or change. So the end of a lease is also asked of a `Stopwatch`.
        """
        if self._clock is None:
            self._ask("list", self.location, "list_objects_v2", Prefix=self._prefix, MaxKeys=1)
        if self._clock is None:
            raise StorageError(f"{self.location}: expected a Date header in the answers, found none", code="no_date")
        date, noted = self._clock
        try:
            seconds = parsedate_to_datetime(date).timestamp()
        except ValueError as error:
            raise StorageError(f"{self.location}: expected a date in the Date header, found {date!r}") from error
        return int((seconds + CLOCKS.boot_s() - noted) * 1000)

    def _where(self, key: str) -> str:
        return f"{self.location}/{check_key(key, self.location)}"
