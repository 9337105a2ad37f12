"""Somebody stops the real command line with Ctrl-C or SIGTERM, at any storage call of a pass."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.dying_cli import Trouble, Zygote
from tests.support.every import EVERY
from tests.support.fault_places import NOW_MS, Found, LocalPlace
from tests.support.fault_story import Story
from tests.support.killed_cli import Assignment


def _lease(found: Found) -> dict[str, object]:
    documents = [data for key, data in found.control.items() if key.endswith("/lease.json")]
    return json.loads(documents[0]) if documents else {"expires_at_ms": 0}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_stopped_run_says_so_and_is_finished_at_once(tmp_path: Path, name: str, status: int) -> None:
    """One sentence, the exit code of the signal, the lease given back: nobody waits for it to end."""
    story = Story()
    place = LocalPlace(tmp_path / "place", story.objects)
    zygote = Zygote(tmp_path / "zygote", place.level)
    try:
        lane = Assignment(story, place, zygote, "local")
        stopped = given_back = 0
        for number in range(1 + (name == "SIGINT"), len(lane.calls) + 1, 2 * EVERY):
            ended = lane.broken(Trouble(name, number))
            where = f"{name} at call {number}, {lane.calls[number - 1]}: {ended.errors}"
            if ended.status == 0 and number > len(lane.calls) - 3:
                continue  # it was done before it noticed
            assert ended.status == status, where
            assert f"stopped by {'Ctrl-C' if name == 'SIGINT' else name}" in ended.errors, where
            assert ended.errors.count("\n") <= 2 and "Traceback" not in ended.errors, where
            stopped += 1
            if _lease(place.found())["expires_at_ms"] == 0:
                given_back += 1
                for _ in range(2):
                    rerun = zygote.run(["maintain", *place.arguments, "--execute"], NOW_MS)
                    assert rerun.status == 0, f"{where}: {rerun.errors}"
                lane.reruns.check_end(place.found())
        assert stopped
        assert given_back >= stopped - 1, "only while the lease is taken nobody can give it back"
    finally:
        zygote.close()


def test_ctrl_c_while_python_ends_shows_no_traceback() -> None:
    """All is said, and a thread holds the process up: whoever is impatient sees no traceback of Python's own."""
    script = (
        "import sys, threading, time\n"
        "from lakesweep.cli.main import main\n"
        "sys.argv = ['lakesweep', '--version']\n"
        "code = main()\n"
        "threading.Thread(target=time.sleep, args=(30,)).start()\n"
        "print('ended', flush=True)\n"
        "sys.exit(code)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while process.stdout.readline() not in ("ended\n", ""):
        pass
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=20)
    assert complained == ""
    assert process.returncode == -signal.SIGINT
