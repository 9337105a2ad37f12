"""What `sam build` makes: small layers that hold all that the functions import, and nothing that is not in the lock."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.builds import FOLDERS, pins
from tests.support.stack import render
from tests.support.system.build import REPOSITORY, build_here, sam_build

MAX_BASE_BYTES = 26 << 20
MAX_BYTES = 34 << 20
"""The base layer and both layers, unpacked."""
WITH_SPARK = {"SparkArtifacts": "s3://artifacts/lakesweep/1"}

IMPORTS_ALL = """
import importlib, pkgutil, sys
sys.path[:0] = sys.argv[1:]
import aws_lambda_powertools.utilities.batch, backports.zstd, lakesweep
names = [each.name for each in pkgutil.walk_packages(lakesweep.__path__, "lakesweep.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def files_of(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_what_is_built_is_small_and_complete() -> None:
    built = build_here().folder
    base, package = built / "BaseLayer" / "python", built / "PackageLayer" / "python"

    for folders, bound in (((base,), MAX_BASE_BYTES), ((base, package), MAX_BYTES)):
        size = sum(path.stat().st_size for path in files_of(*folders))
        assert size <= bound, f"{size / (1 << 20):.1f} MiB in {len(folders)} layers"
    installed = {tuple(path.name.removesuffix(".dist-info").split("-")) for path in base.glob("*.dist-info")}
    locked = {tuple(pin.replace("-", "_").split("==")) for pin in pins("layers/base/requirements.txt")}
    assert installed == locked
    unwanted = ("pyarrow", "boto3", "botocore", "fastavro", "pyroaring", "typer", "moto", "tests", "bin")
    assert [name for name in unwanted if (base / name).exists() or (package / name).exists()] == []
    assert not (package / "lakesweep" / "cli").exists() and not (package / "lakesweep" / "spark").exists()
    assert (package / "lakesweep" / "py.typed").is_file()

    stack = render(WITH_SPARK)
    assert set(FOLDERS) == set(stack.of_type("AWS::Serverless::Function"))
    for name, folder in FOLDERS.items():
        module, _, function = stack.function(name)["Handler"].partition(".")
        source = (built / name / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in source or f"{function} =" in source, name
        expected = {path.name for path in (REPOSITORY / "functions" / folder).iterdir()} - {"__pycache__"}
        assert {path.name for path in (built / name).iterdir()} - {"__pycache__"} == expected

    # Compiled for the Python that runs here, and in such a way that the times of files do not matter.
    sources = [path for path in files_of(base, package) if path.suffix == ".py"]
    compiled = {path.name.split(".")[0] for path in files_of(base, package) if path.suffix == ".pyc"}
    assert {path.stem for path in sources} <= compiled
    (bytecode,) = (package / "lakesweep" / "__pycache__").glob("errors.*.pyc")
    assert bytecode.read_bytes()[4:8] == b"\x01\0\0\0"  # by hash, and not checked

    # Nothing but the layers and Python itself: boto3 too is imported only when a client is made.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", IMPORTS_ALL, base, package],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.slow
@pytest.mark.long
def test_layers_for_lambda_are_built_on_any_machine(tmp_path: Path) -> None:
    """No Python 3.13, no arm64 and no container is needed for them."""
    built = sam_build(tmp_path, "BaseLayer", runtime="python3.13", architecture="arm64")
    libraries = [path.name for path in files_of(built) if path.suffix == ".so"]
    assert libraries
    assert [name for name in libraries if not name.endswith("cpython-313-aarch64-linux-gnu.so")] == []
    shutil.rmtree(built)


def test_every_wheel_of_the_layer_is_known_by_its_hash() -> None:
    lines = (REPOSITORY / "layers/base/requirements.txt").read_text(encoding="utf-8").replace("\\\n", "")
    pins = [line for line in lines.splitlines() if "==" in line and not line.startswith("#")]
    assert pins
    assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


def test_the_layer_has_the_versions_that_the_tests_ran_with() -> None:
    assert pins("layers/base/requirements.txt") <= pins("requirements/dev.txt")
