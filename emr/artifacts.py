"""Build what EMR Serverless is given: one archive for a release and a machine, and the scripts that jobs start from.

    python emr/artifacts.py --release emr-spark-8.0.0 --architecture arm64 --output build/emr

The archive holds the package, everything that `requirements/emr.txt` locks, as wheels for the target, and a manifest.
Nothing runs on the way, so any machine can build for any other; wheels are checked against the lock's hashes. The same
sources give the same bytes: names are sorted, and times, owners and gzip's header say nothing.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ARCHIVE = "archive.tar.gz"
MANIFEST = "manifest.json"
RELEASES: Mapping[str, tuple[str, ...]] = {"emr-spark-8.0.0": ("3.11", "3.12", "3.13")}
"""Releases and the Pythons that they have; the first is built for."""
MACHINES: Mapping[str, str] = {"arm64": "aarch64", "x86_64": "x86_64"}
PLATFORMS = ("manylinux_2_28", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
"""EMR 7 and later run on Amazon Linux 2023, with glibc 2.34."""
NOT_NEEDED = (
    *("bin", "pyarrow/include", "pyarrow/includes", "pyarrow/src", "pyarrow/tests"),
    *("numpy/_core/include", "numpy/_core/tests", "numpy/tests"),
)
"""Commands, tests, and what is for people who build upon these packages."""


def build(release: str, architecture: str, output: Path, python: str | None = None) -> Path:
    """Build the artifacts and return their folder.

    Args:
        release: Of EMR.
        architecture: `arm64` or `x86_64`.
        output: The folder is made below it.
        python: The version to build for, if not the release's first.

    Raises:
        SystemExit: A release without a Python that the package runs on, or wheels that are not to be had.
    """
    python = python or _python_of(release)
    if not re.fullmatch(r"3\.1[1-3]", python):
        raise SystemExit(f"Python {python}: expected 3.11 to 3.13, which the package needs")
    version = _version()
    name = f"{version}-{release}-{architecture}-py{python.replace('.', '')}"
    folder = output / f".{name}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "jobs").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        content = Path(scratch)
        _wheels(content, python, MACHINES[architecture])
        _package(content)
        about = {
            "lakesweep": version,
            "release": release,
            "architecture": architecture,
            "python": python,
            "packages": dict(sorted(_packages(content))),
        }
        (content / "lakesweep-archive.json").write_text(_json(about), encoding="utf-8")
        (folder / ARCHIVE).write_bytes(_archive(content))
    for script in sorted((REPOSITORY / "jobs").glob("*.py")):
        shutil.copyfile(script, folder / "jobs" / script.name)
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = _json({**about, "files": files})
    (folder / MANIFEST).write_text(manifest, encoding="utf-8")
    # Another build has another name. Executors that start later fetch the archive again, and must get the driver's.
    built = output / f"{name}-{hashlib.sha256(manifest.encode()).hexdigest()[:8]}"
    shutil.rmtree(built, ignore_errors=True)
    return folder.rename(built)


def upload_commands(folder: Path) -> str:
    """Return what to type afterwards."""
    place = f"s3://BUCKET/lakesweep-artifacts/{folder.name}"
    return f"aws s3 cp --recursive {folder} {place}\n# and in samconfig.toml: SparkArtifacts={place}\n"


def _python_of(release: str) -> str:
    if release not in RELEASES:
        raise SystemExit(f"release {release}: expected one of {', '.join(RELEASES)}, or --python for another one")
    return RELEASES[release][0]


def _version() -> str:
    text = (REPOSITORY / "shared" / "lakesweep" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    if found is None:
        raise SystemExit("shared/lakesweep/__init__.py states no __version__")
    return found[1]


def _wheels(content: Path, python: str, machine: str) -> None:
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-compile", "--target", str(content), "--implementation", "cp", "--python-version", python),
        *(word for each in PLATFORMS for word in ("--platform", f"{each}_{machine}")),
        *("--only-binary", ":all:", "--no-deps", "--require-hashes"),
        *("-r", str(REPOSITORY / "requirements" / "emr.txt")),
    ]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"the wheels for Python {python} on {machine} are not to be had")
    for name in NOT_NEEDED:
        shutil.rmtree(content / name, ignore_errors=True)


def _package(content: Path) -> None:
    shutil.copytree(
        REPOSITORY / "shared" / "lakesweep", content / "lakesweep", ignore=shutil.ignore_patterns("__pycache__")
    )


def _packages(content: Path) -> Iterator[tuple[str, str]]:
    for path in content.glob("*.dist-info"):
        name, _, version = path.name.removesuffix(".dist-info").rpartition("-")
        yield name, version


def _archive(content: Path) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0, compresslevel=6) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(content.rglob("*"), key=lambda each: str(each.relative_to(content))):
            name = str(path.relative_to(content))
            if path.is_dir() or name.endswith((".pyc", "/RECORD", "/REQUESTED", "/INSTALLER", "/direct_url.json")):
                continue  # what pip notes of itself and of the order in which it worked
            member = tarfile.TarInfo(name)
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as body:
                archive.addfile(member, body)
    return packed.getvalue()


def _sha256(path: Path) -> str:
    with path.open("rb") as body:
        return hashlib.file_digest(body, "sha256").hexdigest()


def _json(document: object) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def main(words: Sequence[str] | None = None) -> None:
    """Build, and say what was built and how it is uploaded."""
    parser = argparse.ArgumentParser(description="Build what EMR Serverless is given.")
    parser.add_argument("--release", default=next(iter(RELEASES)))
    parser.add_argument("--architecture", default="arm64", choices=sorted(MACHINES))
    parser.add_argument("--python", help="such as 3.12; else the release's first")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "emr")
    given = parser.parse_args(words)
    folder = build(given.release, given.architecture, given.output, given.python)
    size = (folder / ARCHIVE).stat().st_size
    sys.stdout.write(f"{folder}: {ARCHIVE} has {size / (1 << 20):.1f} MiB\n{upload_commands(folder)}")


if __name__ == "__main__":
    main()
