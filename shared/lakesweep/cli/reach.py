"""Errors that keep a command from reaching its store: credentials, region, endpoint. One exit code and one hint."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lakesweep.errors import AccessDeniedError, MaintenanceError

_PLACE = "the region (--region) and the endpoint (--endpoint-url)"
_REFUSED = f"check the credentials (aws sts get-caller-identity), their permissions, {_PLACE}"
_NO_ANSWER = f"check the network, a proxy (HTTPS_PROXY), {_PLACE}"
_NETWORK = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError"})
"""No such host, nothing listens there, or it takes too long."""
_SILENT = _NETWORK | {"SSLError", "CredentialRetrievalError"}
"""Nobody has answered yet. Another time may be better."""
_CODES = _SILENT | frozenset(
    {
        "store_settings",
        "NoCredentialsError",
        "PartialCredentialsError",
        "TokenRetrievalError",
        "SSOTokenLoadError",
        "UnauthorizedSSOTokenError",
        "ExpiredToken",
        "InvalidToken",
        "InvalidAccessKeyId",
        "NoRegionError",
        "InvalidRegionError",
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "IllegalLocationConstraintException",
    }
)
REFUSED = 3
_of_silence: ContextVar[int] = ContextVar("exit code of silence", default=REFUSED)


@contextmanager
def silence_ends_with(exit_code: int) -> Iterator[None]:
    """Let commands end with this exit code if an endpoint does not answer."""
    token = _of_silence.set(exit_code)
    try:
        yield
    finally:
        _of_silence.reset(token)


def reach_exit_code(error: MaintenanceError) -> int:
    """Return the exit code for a store that cannot be reached."""
    return _of_silence.get() if error.code in _SILENT else REFUSED


def hint(error: MaintenanceError) -> str:
    """Return what to check if a store cannot be reached."""
    return _NO_ANSWER if error.code in _NETWORK else _REFUSED


def is_out_of_reach(error: MaintenanceError) -> bool:
    """Tell whether an error is about credentials, region or endpoint of S3."""
    if error.code in _CODES:
        return True
    if "expected s3:" in str(error):
        return False  # the message already names the missing permission
    return isinstance(error, AccessDeniedError) and any(
        type(cause).__module__.startswith("botocore") for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__
