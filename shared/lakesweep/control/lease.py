"""One maintainer of a table at a time.

The lease is one document that only conditional writes change, so it works on any store that has them. A token grows
with every change. A delete may start only while the lease outlasts it, and a successor waits for the same margin
beyond the expiry: two runs never delete at once, even if one was suspended for hours.
"""

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import (
    FormatError,
    LeaseHeldError,
    LeaseLostError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)

LEASE_MS = 600_000
"""How long a lease holds unless it is renewed. Below the queue's visibility timeout of the deployed workers (720 s), so
that a killed worker's message finds the lease free when it comes back."""
DELETE_MARGIN_MS = 120_000
"""The longest that one batch of deletes may take with all retries of its requests."""
_NAME = "lease.json"


class Lease:
    """The lease of one table, as one run holds it."""

    def __init__(self, area: ControlArea, run_id: str, etag: str, token: int, expires_ms: int) -> None:
        self._area = area
        self._run_id = run_id
        self._etag = etag
        self._token = token
        self._expires_ms = expires_ms

    @property
    def token(self) -> int:
        """Return the number that grew when this run took the lease."""
        return self._token

    def check(self) -> None:
        """Make sure that a batch of deletes that starts now ends under this lease; renew it when it runs low.

        Raises:
            LeaseLostError: Another run took the lease.
        """
        now_ms = self._area.store.now_ms()
        if self._expires_ms - now_ms > LEASE_MS // 2:
            return
        self._write(now_ms + LEASE_MS)
        if self._expires_ms - self._area.store.now_ms() <= DELETE_MARGIN_MS:
            raise LeaseLostError(
                f"{self._area.path(_NAME)}: renewing the lease took longer than it lasts; run {self._run_id} stopped"
            )

    def release(self) -> None:
        """Give the lease back.

        A lease that another run took meanwhile is left alone, and one that cannot be written ends by itself: neither
        changes what the run did.
        """
        try:
            self._write(0)
        except (LeaseLostError, StorageError):
            return

    def _write(self, expires_ms: int) -> None:
        body = _document(self._run_id, self._token + 1, expires_ms)
        try:
            self._etag = self._area.put(_NAME, body, if_match=self._etag)
        except (PreconditionFailedError, ObjectNotFoundError) as error:
            raise LeaseLostError(
                f"{self._area.path(_NAME)}: expected the lease of run {self._run_id}, found that another run took it"
            ) from error
        self._token += 1
        self._expires_ms = expires_ms


def acquire(area: ControlArea, run_id: str) -> Lease:
    """Take the lease of a table.

    Raises:
        LeaseHeldError: Another run holds it.
        FormatError: The lease document does not parse.
    """
    try:
        body = area.read(_NAME)
    except ObjectNotFoundError:
        return _take(area, run_id, token=1, if_match=None)
    document = from_json_bytes(body.data, area.path(_NAME))
    holder, token, expires_ms = document.get("run_id"), document.get("token"), document.get("expires_at_ms")
    if not isinstance(token, int) or not isinstance(expires_ms, int):
        raise FormatError(f"{area.path(_NAME)}: expected the numbers token and expires_at_ms of a lease")
    free_at_ms = expires_ms + DELETE_MARGIN_MS if expires_ms else 0
    now_ms = area.store.now_ms()
    if now_ms < free_at_ms:
        raise LeaseHeldError(
            f"table {area.table}: run {holder} holds the lease for {(free_at_ms - now_ms + 999) // 1000} s at most; "
            "expected it free"
        )
    return _take(area, run_id, token=token + 1, if_match=body.etag)


def _take(area: ControlArea, run_id: str, token: int, if_match: str | None) -> Lease:
    expires_ms = area.store.now_ms() + LEASE_MS
    try:
        etag = area.put(_NAME, _document(run_id, token, expires_ms), if_absent=if_match is None, if_match=if_match)
    except PreconditionFailedError as error:
        raise LeaseHeldError(f"table {area.table}: another run took the lease first; expected it free") from error
    return Lease(area, run_id, etag, token, expires_ms)


def _document(run_id: str, token: int, expires_ms: int) -> bytes:
    return to_json_bytes({"run_id": run_id, "token": token, "expires_at_ms": expires_ms})
