"""Which S3 server and credentials the environment alone names, as far as that is plain to see without botocore."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lakesweep.storage.aws_client import new_session
from lakesweep.storage.s3.object_reader import Access

AWS = ".amazonaws.com"
_PLAIN = frozenset(
    (
        "AWS_ACCESS_KEY_ID",
        "AWS_CA_BUNDLE",
        "AWS_CONFIG_FILE",
        "AWS_DEFAULT_REGION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_EXECUTION_ENV",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SHARED_CREDENTIALS_FILE",
    )
)
"""Variables whose meaning for botocore is known here. With another one, botocore itself is asked."""
_NOT_FOR_S3 = ("AWS_LAMBDA_", "AWS_XRAY_", "AWS_EMF_", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_KMS")
_OTHER_DOMAINS = ("cn-", "us-iso", "eu-iso", "eusc-")
"""Regions whose servers are not below amazonaws.com."""
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")


def plain_access(endpoint_url: str | None, region: str | None, environment: Mapping[str, str]) -> Access | None:
    """Return the access to the server that botocore would take; `None` if this is not plain to see."""
    named = {name: value for name, value in environment.items() if name.startswith("AWS_") and value}
    key, secret = named.get("AWS_ACCESS_KEY_ID"), named.get("AWS_SECRET_ACCESS_KEY")
    region = region or named.get("AWS_DEFAULT_REGION")
    files = (
        named.get("AWS_CONFIG_FILE", "~/.aws/config"),
        named.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    )
    known = all(name in _PLAIN or name.startswith(_NOT_FOR_S3) for name in named)
    if not (key and secret and region and _REGION.fullmatch(region) and known) or any(map(_has_text, files)):
        return None
    url = endpoint_url or named.get("AWS_ENDPOINT_URL_S3") or named.get("AWS_ENDPOINT_URL")
    if url is None:
        if region.startswith(_OTHER_DOMAINS):
            return None
        url = aws_url(region)
    elif endpoint_url is None and AWS in url:
        return None  # botocore addresses such an endpoint in its own way.
    if not _is_server(url):
        return None
    credentials = {"access_key_id": key, "secret_access_key": secret}
    if token := named.get("AWS_SESSION_TOKEN"):
        credentials["token"] = token
    return Access(url, region, credentials) if all(map(is_for_headers, credentials.values())) else None


def aws_url(region: str) -> str:
    """Return the URL of S3 in a region."""
    return f"https://s3.{region}{AWS}"


def session_of(plain: Access) -> Any:
    """Return a session that takes nothing from an environment that may have changed since the readers were made.

    Otherwise one run could read from one server, and list and delete on another.
    """
    session = new_session()
    access: Any = plain.credentials
    session.set_credentials(access["access_key_id"], access["secret_access_key"], access.get("token"))
    for name, value in (
        ("config_file", os.devnull),
        ("credentials_file", os.devnull),
        ("ignore_configured_endpoint_urls", True),
    ):
        session.set_config_variable(name, value)
    return session


def _has_text(path: str) -> bool:
    try:
        return Path(os.path.expandvars(path)).expanduser().stat().st_size > 0
    except (OSError, RuntimeError):
        return False


def is_for_headers(text: str) -> bool:
    """Tell whether credentials have no line break, for instance, with which obstore would panic."""
    return text.isascii() and text.isprintable()


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.query or parts.fragment or parts.username or parts.password)
            and url.isascii()
            and " " not in url
        )
    except ValueError:
        return False
