"""Break one rule after the other in a copy of the repository, and see whether the tests notice.

python -m tests.mutations              each with the test that the list names
python -m tests.mutations --all        each with everything that `make test` runs (hours)
python -m tests.mutations lease guard  those whose module or name has one of these words
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.mutations import MUTATIONS, Mutation

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 900
"""One mutation with the test that is named for it takes no longer."""
_FAILED = (1, 2)
"""What pytest ends with when a test failed; with -x and several processes it is the second."""


def main() -> int:
    """Return 0 when every mutation is noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("words", nargs="*", help="only mutations whose module or name has one of these words")
    parser.add_argument("--all", action="store_true", help="run all tests instead of the one that is named")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these instead, and print the first that fails")
    options = parser.parse_args()
    chosen = [each for each in MUTATIONS if _is_chosen(each, options.words)]
    if not chosen:
        print("no mutation has one of these words", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="lakesweep-mutations-") as folder:
        copy = Path(folder) / "lakesweep"
        _copy(copy)
        if not options.tests and not options.all and not _pass_unchanged(copy, chosen):
            return 1
        unnoticed = [each for each in chosen if not _is_noticed(copy, each, _tests(each, options))]
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} mutations noticed")
    for each in unnoticed:
        print(f"NOT noticed: {each.name} ({each.module}.py)")
    return 1 if unnoticed else 0


def _is_chosen(mutation: Mutation, words: Sequence[str]) -> bool:
    return not words or any(word in mutation.name or word in mutation.module for word in words)


def _tests(mutation: Mutation, options: argparse.Namespace) -> list[str]:
    if options.all:
        return ["tests"]
    return options.tests or [f"tests/{mutation.test}"]


def _copy(to: Path) -> None:
    """Copy what git knows of, so that nothing here is touched; environments and builds are the same ones."""
    asked = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(asked, cwd=REPOSITORY, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source := REPOSITORY / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, to / name)
    for name in (".venv", "build"):
        if (REPOSITORY / name).exists():
            (to / name).symlink_to(REPOSITORY / name)


def _pass_unchanged(copy: Path, chosen: Sequence[Mutation]) -> bool:
    """Make sure that the named tests pass without a mutation: one that fails anyway notices nothing."""
    ended = _pytest(copy, sorted({f"tests/{each.test}" for each in chosen}))
    if ended.returncode:
        print(ended.stdout[-3000:])
        print("the named tests do not pass without a mutation")
    return ended.returncode == 0


def _is_noticed(copy: Path, mutation: Mutation, tests: Sequence[str]) -> bool:
    path = copy / "shared" / "lakesweep" / f"{mutation.module}.py"
    source = path.read_text(encoding="utf-8")
    if source.count(mutation.before) != 1:
        raise SystemExit(
            f"{mutation.module}.py has {mutation.before!r} {source.count(mutation.before)} times; expected once"
        )
    path.write_text(source.replace(mutation.before, mutation.after), encoding="utf-8")
    began = time.perf_counter()
    try:
        ended = _pytest(copy, tests, "-x")
    finally:
        path.write_text(source, encoding="utf-8")
    failed = next((line.split(" ")[1] for line in ended.stdout.splitlines() if line.startswith("FAILED ")), "")
    noticed = ended.returncode in _FAILED and bool(failed)
    word = "noticed" if noticed else f"NOT noticed (pytest ended with {ended.returncode})"
    print(f"{word}  {time.perf_counter() - began:4.0f} s  {mutation.name}  {failed}", flush=True)
    return noticed


def _pytest(copy: Path, tests: Sequence[str], *more: str) -> subprocess.CompletedProcess[str]:
    workers = (
        ()
        if len(tests) == 1 and "::" in tests[0]
        else ("--numprocesses", os.environ.get("JOBS", "auto"), "--dist", "worksteal")
    )
    return subprocess.run(
        [str(copy / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, *more, *tests],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "shared")},
        capture_output=True,
        text=True,
        check=False,
        timeout=None if "tests" in tests else LIMIT_S,
    )


if __name__ == "__main__":
    sys.exit(main())
