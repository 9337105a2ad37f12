"""moto for hundreds of runs: the S3 of this process, which holds the buckets that `s3_server` serves too."""

import functools
import itertools
import os
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import create_backend_app
from moto.s3.models import s3_backends

from tests.support.moto_http import serve

_numbers = itertools.count()


@functools.cache
def endpoint() -> str:
    """Return the URL of the server, started once per process. It ends with the process."""
    return serve(create_backend_app("s3"))


def buckets() -> Any:
    """Return what moto holds: to fill it and to look at it past HTTP."""
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def make_bucket() -> str:
    """Make a bucket that nobody used before and return its name."""
    name = f"lakesweep-fault-{os.getpid()}-{next(_numbers)}"
    buckets().create_bucket(name, "us-east-1")
    return name
