"""moto in a process of its own: prints its URL, and ends when its standard input ends."""

import sys

from tests.support.s3_server import moto_endpoint

if __name__ == "__main__":
    print(moto_endpoint(), flush=True)
    sys.stdin.read()
