"""Errors that keep a command from reaching its store: credentials, region, endpoint. One exit code and one hint."""

from collections.abc import Iterator

from lakesweep.errors import AccessDeniedError, MaintenanceError

HINT = (
    "check the credentials (aws sts get-caller-identity), their permissions, the region (--region) and the endpoint "
    "(--endpoint-url)"
)
_CODES = frozenset(
    {
        "store_settings",
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
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
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "SSLError",
    }
)


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
