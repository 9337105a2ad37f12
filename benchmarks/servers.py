"""An S3 server for one benchmark, and the counting proxy in front of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

PROJECT = Path(__file__).resolve().parents[1]
REGION = "us-east-1"
KEY = "lakesweepbench"
SCRATCH = PROJECT / "build" / "bench" / "scratch"
_NOT_REQUESTS = ("bytes_up", "bytes_down")


@dataclass(frozen=True, slots=True)
class S3:
    """A running server with its proxy."""

    name: str
    """What it is, with its version."""
    direct: str
    """Its own endpoint, for preparing and checking."""
    proxied: str
    """The endpoint that counts, for what is measured."""
    folder: Path | None = None
    """Where its buckets lie as folders, if it is a server that keeps them so."""

    def client(self, endpoint: str | None = None) -> Any:
        """Return a plain client, of the server itself unless an endpoint is given."""
        config = Config(max_pool_connections=16, s3={"addressing_style": "path"}, retries={"max_attempts": 3})
        return boto3.client(
            "s3",
            endpoint_url=endpoint or self.direct,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=KEY,
            config=config,
        )

    def reset(self, latency_ms: float) -> None:
        """Forget the counts, and hold back every request from now on for so long."""
        self._ask(f"reset?ms={latency_ms}")

    def counts(self) -> dict[str, int]:
        """Return requests by kind since the last reset."""
        return {kind: n for kind, n in sorted(self._ask("counts").items()) if kind not in _NOT_REQUESTS}

    def log(self) -> list[tuple[str, str]]:
        """Return kind and path of each request since the last reset, in order; a path begins with the bucket."""
        return [(kind, path.lstrip("/")) for kind, path in self._ask("log")]

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.proxied}/__proxy/{what}") as answer:
            return json.load(answer)

    def upload(self, folder: Path, bucket: str, prefix: str) -> int:
        """Put every file of a folder below a prefix; return how many."""
        client = self.client()
        files = [path for path in folder.rglob("*") if path.is_file()]

        def put(path: Path) -> None:
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, files))
        return len(files)

    def link(self, folder: Path, bucket: str, prefix: str) -> Path:
        """Put every file of a folder below a prefix by hard links, and return where: uploading many takes minutes."""
        if self.folder is None:
            raise SystemExit(f"benchmarks: {self.name} keeps no folders; run `make versitygw` first")
        return Path(shutil.copytree(folder, self.folder / bucket / prefix, copy_function=os.link))

    def keys(self, bucket: str, prefix: str) -> list[str]:
        """Return the keys below a prefix, without the prefix."""
        return list(self.each_key(bucket, prefix))

    def each_key(self, bucket: str, prefix: str) -> Iterator[str]:
        """Yield the keys below a prefix in ascending order, without the prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
        keys = (found["Key"] for page in pages for found in page.get("Contents", ()))
        return (key.removeprefix(f"{prefix}/") for key in keys if not key.endswith("/"))


def environment() -> dict[str, str]:
    """Return the environment of every child: credentials of the server here, and nothing of the user's account.

    Modules are compiled once and kept, as an installation keeps them.
    """
    left_out = ("AWS_", "LAKESWEEP_CONTROL", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "shared")]),
        "PYTHONPYCACHEPREFIX": str(PROJECT / "build" / "bench" / "compiled"),
    }


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Start versitygw where there is one ($LAKESWEEP_VERSITYGW, build/versitygw), else moto, with a proxy in front."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # so that the servers end too
    stated = os.environ.get("LAKESWEEP_VERSITYGW")
    binary = Path(stated) if stated else PROJECT / "build" / "versitygw"
    if stated and not binary.is_file():
        raise SystemExit(f"LAKESWEEP_VERSITYGW: expected a program, found nothing at {stated}")
    started = _versitygw(binary) if binary.is_file() else _moto()
    with started as (name, endpoint, folder):
        host, port = endpoint.removeprefix("http://").split(":")
        with _child([sys.executable, "-m", "benchmarks.proxy", host, port]) as proxy:
            assert proxy.stdout is not None
            yield S3(name, endpoint, f"http://127.0.0.1:{int(proxy.stdout.readline())}", folder)


@contextlib.contextmanager
def _versitygw(binary: Path) -> Iterator[tuple[str, str, Path | None]]:
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="versitygw-") as root:
        # Without --keep-alive every request would pay for a connection.
        command = [str(binary), "--access", KEY, "--secret", KEY, "--port", f"127.0.0.1:{port}", "--keep-alive"]
        with _child([*command, "--quiet", "posix", root], output=subprocess.DEVNULL) as server:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if server.poll() is not None:
                    raise SystemExit(f"{binary} ended with exit code {server.returncode} as it started")
                time.sleep(0.1)
            yield f"versitygw {_version(binary)}", f"http://127.0.0.1:{port}", Path(root)


def _version(binary: Path) -> str:
    """Return the release that the program was built from, as far as it or Go tells."""
    if shutil.which("go"):
        built = subprocess.run(["go", "version", "-m", str(binary)], capture_output=True, text=True, check=False)
        for line in built.stdout.splitlines():
            words = line.split()
            if words[:1] == ["mod"] and words[2].startswith("v"):
                return words[2]
    stated = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False).stdout
    fields = dict(line.replace(" ", "").split(":", 1) for line in stated.splitlines() if ":" in line)
    return fields.get("Version", "of unknown version")


@contextlib.contextmanager
def _moto() -> Iterator[tuple[str, str, Path | None]]:
    from importlib.metadata import version

    with _child([sys.executable, "-m", "benchmarks.moto"]) as server:
        assert server.stdout is not None
        yield f"moto {version('moto')}", server.stdout.readline().strip(), None


@contextlib.contextmanager
def _child(command: list[str], output: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a process, and end it afterwards. Its output can be read, unless it is sent elsewhere."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if output is None else output,
        stderr=output,
        text=True,
        cwd=PROJECT,
        env=environment(),
    )
    try:
        yield child
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
