"""The fuzz targets without a fuzzer: they take what they begin with, and random damage to it."""

import random
import subprocess
import sys

import pytest

from tests.fuzz.run import REPOSITORY
from tests.fuzz.targets import TARGETS

MUTATIONS = 300
ORC_MUTATIONS = 30
"""Most of them cost a process."""


@pytest.mark.parametrize("name", TARGETS)
def test_target(name: str) -> None:
    if name.startswith("orc"):
        pytest.importorskip("pyarrow")
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for seed in seeds:
        target.take(seed)
    chance = random.Random(name)
    for _ in range(ORC_MUTATIONS if name == "orc" else MUTATIONS):
        target.take(_mutated(chance.choice(seeds), chance))


def _mutated(seed: bytes, chance: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[place : place + 1] = bytes((chance.randrange(256),))
            case 1:
                del data[place : place + chance.randint(1, 20)]
            case 2:
                data[place:place] = chance.choice((b"\0", b"\xff" * 9, b"\n", b"[" * 100, b'"', b"9" * 30))
            case 3:
                data[place : place + 8] = seed[: chance.randint(1, 40)]
    return bytes(data)


def test_without_atheris_it_is_said() -> None:
    """No wheel for this Python or machine is no error, and not silence either."""
    words = "import sys; sys.modules['atheris'] = None; sys.path.insert(0, '.'); from tests.fuzz.run import main; "
    done = subprocess.run(
        [sys.executable, "-c", words + "sys.exit(main(['--seconds', '1', 'hint']))"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "skipped, no wheel of atheris for CPython" in done.stdout
