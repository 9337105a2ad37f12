"""The system with every kind of trouble, for as long as one likes: `make chaos MINUTES=n`.

Runs one seed after the other and prints a line for each. With `--seed` it runs that one again and again, since how
processes fall in with each other is not part of a seed, until it fails or the time is over.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count, repeat
from pathlib import Path

from tests.support.system.altered import SMALL, altered
from tests.support.system.build import BuildError, build_here
from tests.support.system.chaos import TROUBLES, run_chaos
from tests.support.system.writers import java_is_missing
from tests.system.__main__ import own_environment, run_to_the_end

FIRST_SEED = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and return the exit code: 1 if a run failed."""
    options = _options(arguments)
    own_environment()
    try:
        build = build_here()
    except BuildError as error:
        print(f"make chaos: {error}", file=sys.stderr)
        return 1
    missing = java_is_missing()
    if missing is not None:
        print(f"The Java engine does not read: {missing}", file=sys.stderr)
    end_s = time.monotonic() + 60 * options.minutes
    failed: list[int] = []
    runs = troubles = 0
    with tempfile.TemporaryDirectory(prefix="lakesweep-chaos-") as folder:
        small = altered(build, Path(folder) / "build", SMALL)
        seeds: Iterator[int] = count(FIRST_SEED) if options.seed is None else repeat(options.seed)
        for seed in seeds:
            run = run_chaos(small, seed, options.troubles, java=None if missing else Path(folder) / f"jvm-{runs}")
            print(run, flush=True)
            runs, troubles = runs + 1, troubles + len(run.happened)
            if run.problems:
                failed.append(seed)
            if time.monotonic() >= end_s or (failed and options.seed is not None):
                break
    again = "".join(f"; make chaos SEED={seed}" for seed in failed)
    print(f"{runs} runs, {troubles} troubles, {len(failed)} failed{again}")
    return 1 if failed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0, help="no run begins after this time (10)")
    parser.add_argument("--seed", type=int, help="run this one again and again, instead of one after the other")
    parser.add_argument("--troubles", type=int, default=TROUBLES, help=f"how many in each run ({TROUBLES})")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run_to_the_end(main)
