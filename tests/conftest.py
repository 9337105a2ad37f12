"""What every test stands on: no real account, no real home directory, and visible skips for what a machine lacks."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.seeds import draw_seeds
from tests.support.summaries import (
    branches_compared,
    calls_broken,
    orphans_compared,
    schedules_played,
    system_measured,
    tables_compared,
    tags_compared,
)

REPOSITORY = Path(__file__).resolve().parent.parent


def _isolate_from_the_user() -> None:
    """Point AWS at credentials that open nothing, and everything kept per user at an empty folder.

    At import, not in a fixture: a session of boto3 that is made while a test module loads must see it too.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.pop("LAKESWEEP_CONTROL", None)
    os.environ.pop("LAKESWEEP_POLICY", None)

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

settings.register_profile("default", deadline=None, print_blob=True)
# The same examples in every run, so that a red run is about the change and not about the day's luck.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


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


def pytest_configure() -> None:
    """Before processes that run tests are started, which go by this one's environment."""
    draw_seeds()


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The name of a parameter of bytes that are no short text: the argument's, which pytest numbers.

    Bytes in the name of a test are read by nobody, and those of gzip hold the second at which they were made: processes
    that share the tests among them would not know each other's.
    """
    if isinstance(val, bytes) and not (len(val) <= 40 and val.isascii() and val.decode().isprintable()):
        return argname
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded."""
    calls_broken(terminalreporter)
    system_measured(terminalreporter)
    tables_compared(terminalreporter)
    tags_compared(terminalreporter)
    branches_compared(terminalreporter)
    orphans_compared(terminalreporter)
    schedules_played(terminalreporter)
