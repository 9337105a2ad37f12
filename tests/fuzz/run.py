"""Coverage-guided fuzzing of every decoder with atheris: `make fuzz SECONDS=60`.

All targets share SECONDS equally, one after another, each in a process of its own. What a target learns stays in
`build/fuzz/corpus/`, so the next run begins there. An input that breaks something is kept in `build/fuzz/` and makes
the run fail. Without a wheel of atheris for this Python and machine, that is said and nothing is fuzzed.
"""

import argparse
import importlib.util
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "build" / "fuzz"
RSS_LIMIT_MB = 512
"""Of the whole process: interpreter, pyarrow, coverage counters and 300 MiB for the decoder."""
INPUT_TIMEOUT_S = 10
MAX_INPUT_BYTES = 8192
INSTRUMENTED_DECODERS = 8

_ONE = "--one"
"""The word by which a process is told to fuzz one target, with libFuzzer's own options behind it."""
_COVERAGE = re.compile(r"\bcov: (\d+)")
_EXECUTIONS = re.compile(r"stat::number_of_executed_units: *(\d+)")


@dataclass(frozen=True)
class Result:
    """What came of one target."""

    executions: int
    coverage_before: int
    """After the inputs that it began with."""
    coverage_after: int
    findings: tuple[Path, ...]
    exit_code: int


def main(arguments: Sequence[str]) -> int:
    """Fuzz all targets, or those that are named."""
    if arguments[:1] == [_ONE]:
        _fuzz_here(arguments[1], arguments[2:])
    parser = argparse.ArgumentParser(prog="make fuzz", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("targets", nargs="*")
    chosen = parser.parse_args(arguments)
    if not _has_atheris():
        version = f"{platform.python_implementation()} {platform.python_version()}"
        print(f"make fuzz: skipped, no wheel of atheris for {version} on {platform.system()} {platform.machine()}")
        return 0
    from tests.fuzz.targets import TARGETS

    names = chosen.targets or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        parser.error(f"no target {', '.join(sorted(unknown))}; expected some of {', '.join(TARGETS)}")
    seconds = max(1.0, chosen.seconds / len(names))
    print(f"{len(names)} targets, {seconds:.1f} seconds each")
    results = {name: _fuzz(name, TARGETS[name].seeds(), seconds) for name in names}
    failed = [name for name, result in results.items() if result.exit_code]
    if failed:
        print(f"make fuzz: findings in {', '.join(failed)}; inputs and logs are in {FOLDER}", file=sys.stderr)
    return 1 if failed else 0


def _has_atheris() -> bool:
    try:
        return importlib.util.find_spec("atheris") is not None
    except ValueError:  # somebody took it out of this process
        return False


def _fuzz(name: str, seeds: Sequence[bytes], seconds: float) -> Result:
    corpus = FOLDER / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    prefix = FOLDER / f"{name}-"
    log_path = FOLDER / f"{name}.log"
    started = time.time()
    with log_path.open("wb") as log:
        process = subprocess.run(
            [
                sys.executable, "-m", "tests.fuzz.run", _ONE, name, str(corpus),
                f"-max_total_time={max(1, round(seconds))}", f"-rss_limit_mb={RSS_LIMIT_MB}",
                f"-timeout={INPUT_TIMEOUT_S}", f"-max_len={MAX_INPUT_BYTES}", f"-artifact_prefix={prefix}",
                "-print_final_stats=1",
            ],
            stdout=log, stderr=subprocess.STDOUT, cwd=REPOSITORY, check=False,
        )  # fmt: skip
    text = log_path.read_text("utf-8", "replace")
    coverage = [int(found) for found in _COVERAGE.findall(text)] or [0]
    executions = _EXECUTIONS.search(text)
    findings = tuple(
        path for path in sorted(FOLDER.glob(f"{name}-*")) if path.is_file() and path.stat().st_mtime >= started - 1
    )
    result = Result(int(executions[1]) if executions else 0, coverage[0], coverage[-1], findings, process.returncode)
    new = result.coverage_after - result.coverage_before
    what = "no findings" if not result.exit_code else f"FAILED, {len(findings)} findings, exit {result.exit_code}"
    print(
        f"{name:18} {result.executions:9} executions  {new:5} new edges of {result.coverage_after:5}  {what}",
        flush=True,
    )
    return result


def _fuzz_here(name: str, options: Sequence[str]) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["lakesweep"], enable_loader_override=False):
        from tests.fuzz.targets import TARGETS
    _instrument_generated_code(atheris.instrument_func)
    atheris.Setup([sys.argv[0], *options], TARGETS[name].take)
    atheris.Fuzz()


def _instrument_generated_code(instrument: Callable[[Any], Any]) -> None:
    """Let the first decoders that `projection` writes count as code, those of the seeds among them."""
    from lakesweep.format.avro import projection

    compile_decoder, seen = projection._compile, set()

    def compile_and_instrument(schema_text: bytes, wants: tuple[projection.Want, ...]) -> Any:
        decode = compile_decoder(schema_text, wants)
        if len(seen) < INSTRUMENTED_DECODERS and (schema_text, wants) not in seen:
            seen.add((schema_text, wants))
            instrument(getattr(decode, "careful", decode))
        return decode

    projection._compile = compile_and_instrument  # type: ignore[assignment]


if __name__ == "__main__":
    os.chdir(REPOSITORY)
    sys.exit(main(sys.argv[1:]))
