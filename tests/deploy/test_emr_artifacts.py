"""What `make emr-artifacts` packs, fetching nothing: the same bytes each time, and versions that tests ran with."""

import re
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path

import pytest

from emr import artifacts
from lakesweep.aws.emr import ARCHIVE, ENTRY_POINTS
from tests.deploy.builds import pins
from tests.support.stack import TEMPLATE, load_template

REPOSITORY = TEMPLATE.parent


def content(folder: Path, *, backwards: bool = False) -> Path:
    """Write some files, in one order or the other."""
    files = {"lakesweep/a.py": b"a", "pyarrow/lib.so": b"\0" * 9, "boto3-1.dist-info/METADATA": b"m"}
    files |= {"lakesweep/__pycache__/a.pyc": b"?", "boto3-1.dist-info/RECORD": str(folder).encode()}
    for name in sorted(files, reverse=backwards):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    return folder


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    """Whenever they were written, in whatever order, by whomever."""
    one, other = content(tmp_path / "one"), content(tmp_path / "other", backwards=True)
    (other / "lakesweep" / "a.py").chmod(0o600)
    packed = artifacts._archive(one)
    assert packed == artifacts._archive(other)
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["boto3-1.dist-info/METADATA", "lakesweep/a.py", "pyarrow/lib.so"]
    assert {(member.mtime, member.uid, member.mode) for member in members} == {(0, 0, 0o644)}


def test_the_lock_has_the_versions_that_the_tests_ran_with() -> None:
    """And a hash for every file, so that nothing else is packed."""
    assert pins("requirements/emr.txt") <= pins("requirements/dev.txt")
    lines = (REPOSITORY / "requirements/emr.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    assert [line for line in lines if "==" in line and not line.startswith("#") and "--hash=sha256:" not in line] == []


def test_the_lock_has_what_jobs_import() -> None:
    """The package's own dependencies and the command line."""
    names = {pin.split("==")[0] for pin in pins("requirements/emr.txt")}
    assert {"boto3", "backports-zstd", "pyarrow", "typer", "rich", "cramjam"} <= names
    assert "pyspark" not in names, "EMR has its own"
    assert "fastavro" not in names, "tests alone use it"


def test_what_is_locked_is_what_the_package_says_it_needs() -> None:
    """By name, not because another package happens to bring it: the match of a scan needs numpy itself."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    words = [*project["dependencies"], *(word for name in ("cli", "orc", "snappy", "spark") for word in extras[name])]
    needed = {re.split(r"[<>=;\[ ]", word)[0] for word in words}
    stated = (REPOSITORY / "requirements/emr.in").read_text(encoding="utf-8").splitlines()
    named = {re.split(r"[<>=;\[ ]", line)[0] for line in stated if line and not line.startswith("#")}
    assert needed - {"pyspark"} <= named


def test_the_builders_defaults_are_the_templates() -> None:
    """Release, machine and Python are said in three places."""
    stated = {name: it.get("Default") for name, it in load_template()["Parameters"].items()}
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    release, python = stated["SparkRelease"], stated["SparkPython"].removeprefix("python")
    assert f"\nRELEASE ?= {release}\n" in makefile
    assert f"\nARCHITECTURE ?= {stated['SparkArchitecture'].lower()}\n" in makefile
    assert f"\nSPARK_PYTHON ?= {python}\n" in makefile
    assert artifacts.RELEASES[release][0] == python


def test_jobs_start_from_what_is_uploaded() -> None:
    """The names in StartJobRun's arguments are those of the folder."""
    assert artifacts.ARCHIVE == ARCHIVE
    assert {name.split("/")[0] for name in ENTRY_POINTS.values()} == {"jobs"}
    assert (REPOSITORY / ENTRY_POINTS["plan"]).is_file()


def test_another_build_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same version, too: executors that start later fetch what the driver has."""
    monkeypatch.setattr(artifacts, "_wheels", lambda *words: None)
    one, again = (artifacts.build("emr-spark-8.0.0", "arm64", tmp_path / name) for name in ("one", "again"))
    monkeypatch.setattr(artifacts, "_package", content)
    other = artifacts.build("emr-spark-8.0.0", "arm64", tmp_path / "one")
    assert one.name == again.name != other.name
    assert one.name.startswith("0.1.0-emr-spark-8.0.0-arm64-py311-")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted((one.name, other.name))
    assert f"s3://BUCKET/lakesweep-artifacts/{one.name}" in artifacts.upload_commands(one)


def test_the_folder_can_be_the_parameter() -> None:
    """What the command prints is what the template takes."""
    pattern = load_template()["Parameters"]["SparkArtifacts"]["AllowedPattern"]
    printed = artifacts.upload_commands(Path("build/emr/0.1.0-emr-spark-8.0.0-arm64-py311"))
    (place,) = re.findall(r"SparkArtifacts=(\S+)", printed)
    assert re.fullmatch(pattern, place.replace("BUCKET", "ops"))


@pytest.mark.parametrize(
    ("release", "python"), [("emr-7.10.0", None), ("emr-spark-8.0.0", "3.9"), ("emr-7.10.0", "3.9")]
)
def test_a_python_that_is_too_old_is_refused(release: str, python: str | None, tmp_path: Path) -> None:
    """Before anything is fetched."""
    with pytest.raises(SystemExit):
        artifacts.build(release, "arm64", tmp_path, python)
    assert list(tmp_path.iterdir()) == []
