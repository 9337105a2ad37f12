"""What every test stands on: no real account, no real home directory, and visible skips for what a machine lacks."""

import atexit
import functools
import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from lakesweep.storage.s3.object_reader import ObjectReader
from tests.differential.engine import Engine
from tests.support.every import EVERY
from tests.support.quick_clients import parse_models_once
from tests.support.sampling import chosen, examples, is_sampled
from tests.support.seeds import draw_seeds
from tests.support.summaries import (
    branches_compared,
    calls_broken,
    commits_compared,
    orphans_compared,
    pages_opened,
    rollbacks_compared,
    schedules_played,
    system_measured,
    tables_compared,
    tags_compared,
)

REPOSITORY = Path(__file__).resolve().parent.parent
LEFT_OUT = pytest.StashKey[int]()
"""How many cases this run leaves out; see `sampling.py`."""


def _isolate_from_the_user() -> None:
    """Point AWS at credentials that open nothing, and everything kept per user at an empty folder.

    At import, not in a fixture: a session of boto3 that is made while a test module loads must see it too.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    for name in ("LAKESWEEP_CONTROL", "LAKESWEEP_S3_READER", "REQUESTS_CA_BUNDLE"):
        os.environ.pop(name, None)
    for name in (
        "LAKESWEEP_POLICY",
        "LAKESWEEP_S3_READER",
        "REQUESTS_CA_BUNDLE",
        "LAKESWEEP_PROGRESS",
        "NO_COLOR",
        "FORCE_COLOR",
    ):
        os.environ.pop(name, None)

    home = tempfile.mkdtemp(prefix="lakesweep-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(
        HOME=home,
        XDG_STATE_HOME=f"{home}/.local/state",
        AWS_ACCESS_KEY_ID="testing",
        AWS_SECRET_ACCESS_KEY="testing",
        AWS_SESSION_TOKEN="testing",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
    )


_isolate_from_the_user()


def _keep_reads_on_this_machine() -> None:
    """Let obstore read from this machine alone: moto's `mock_aws` replaces AWS for botocore, but not for obstore."""
    get = ObjectReader.get

    @functools.wraps(get)
    def checked(self: ObjectReader, *args: Any, **words: Any) -> Any:
        host = urlsplit(self._access.url).hostname
        assert host in ("127.0.0.1", "localhost"), f"{host}: expected this machine; see tests.support.mocked_aws"
        return get(self, *args, **words)

    ObjectReader.get = checked  # type: ignore[method-assign]


_keep_reads_on_this_machine()
parse_models_once()

# Nothing here cuts the power, and without it no page of the kernel is lost. Half of the time of local tables was this.
os.fsync = lambda fd: None

settings.register_profile("default", deadline=None, print_blob=True, max_examples=examples(100))
# The same examples in every run, so that a red run is about the change and not about the day's luck.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(autouse=True)
def _environment_returns() -> Iterator[None]:
    """Fail a test that leaves AWS settings behind: another test would speak to somebody else, in some orders."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    yield
    assert {name: value for name, value in os.environ.items() if name.startswith("AWS_")} == before


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    """Tables that real engines wrote, with the facts a reader must find in them. Read-only: copy before changing."""
    path = Path(os.environ.get("LAKESWEEP_FIXTURES") or REPOSITORY.parent / "shared" / "fixtures")
    if not (path / "tables").is_dir():
        pytest.skip(f"no fixture tables at {path}: set LAKESWEEP_FIXTURES to their folder")
    return path


@pytest.fixture(scope="session")
def engine_classpath() -> str:
    """The class path of the Java engine, for tests that compare with it."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK: the Java engine needs javac and java")
    stated = os.environ.get("LAKESWEEP_ENGINE_CLASSPATH")
    if stated:
        return stated
    made = REPOSITORY / "build" / "engine-classpath.txt"
    if not made.is_file():
        pytest.skip("no engine jars: run `make jars`")
    return made.read_text(encoding="utf-8").strip()


@pytest.fixture(scope="session")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The Java engine: one JVM for each process that runs tests, warm after the first table."""
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine


@pytest.fixture(scope="session")
def old_engine_classpath() -> str:
    """The class path of version 0.9 of the Java engine, which writes tables as they were then."""
    made = REPOSITORY / "build" / "old-engine-classpath.txt"
    if shutil.which("javac") is None or not made.is_file():
        pytest.skip("no jars of the old engine: run `make jars`, which needs a JDK and Maven")
    return made.read_text(encoding="utf-8").strip()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Find the tests, thousands of objects that stay: the garbage collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_configure() -> None:
    """Before processes that run tests are started, which go by this one's environment."""
    draw_seeds()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample of tests with very many cases, where this run is to be short."""
    if is_sampled():
        taken = chosen(items)
        kept = {item.nodeid for item in taken}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        config.stash[LEFT_OUT] = len(items) - len(taken)
        items[:] = taken


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints how many cases this one left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear it from a process that ran tests. All of them leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The name of a parameter of bytes that are no short text: the argument's, which pytest numbers.

    Bytes in the name of a test are read by nobody, and those of gzip hold the second at which they were made: processes
    that share the tests among them would not know each other's.
    """
    if isinstance(val, bytes) and not (len(val) <= 40 and val.isascii() and val.decode().isprintable()):
        return argname
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what tests recorded, and what was left out."""
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.section("a sample")
        terminalreporter.write_line(
            f"{left_out} cases of tests with very many were left out, and each {EVERY}th place of faults was tried; "
            "`make test-all` runs all of them"
        )
    calls_broken(terminalreporter)
    system_measured(terminalreporter)
    pages_opened(terminalreporter)
    tables_compared(terminalreporter)
    tags_compared(terminalreporter)
    branches_compared(terminalreporter)
    commits_compared(terminalreporter)
    rollbacks_compared(terminalreporter)
    orphans_compared(terminalreporter)
    schedules_played(terminalreporter)
