"""Executors that cannot work as the driver can: each ends with one sentence and its exit code, and nothing is lost."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

import lakesweep
from lakesweep.storage.open import StoreSettings, open_store
from tests.support.orphan_scene import OrphanScene
from tests.support.random_scene import FolderScene
from tests.support.spark import REPOSITORY, Finished, submit

JOB = REPOSITORY / "jobs" / "remove_orphan_files.py"


def run(scene: FolderScene, *more: str, **of_workers: str) -> Finished:
    """Plan and execute, where workers have other variables than the driver."""
    return submit(
        JOB,
        scene.store.location,
        "--json",
        "--execute",
        *more,
        scratch=scene.folder / "spark",
        changed={f"spark.executorEnv.{name}": value for name, value in of_workers.items()},
    )


def refused(scene: FolderScene, finished: Finished, exit_code: int, code: str, *words: str) -> None:
    """Check that a run ended with one sentence and changed nothing; not even a plan of ours is left."""
    assert finished.exit_code == exit_code, finished.log
    # spark-submit puts what a job writes to standard error into its output.
    *sentences, document = finished.output.splitlines()
    (sentence,) = sentences
    assert sentence.startswith("lakesweep: ")
    for word in words:
        assert word in sentence
    answer: dict[str, Any] = json.loads(document)
    assert code in json.dumps(answer)
    assert answer["actions"] == []
    assert not list((scene.folder / "control").rglob("header.json"))


@pytest.fixture
def scene(tmp_path: Path) -> FolderScene:
    scene = FolderScene(tmp_path)
    scene.table.commit("+A")
    scene.orphan("b")
    scene.age()
    return scene


@pytest.mark.long
@pytest.mark.slow
def test_another_version_of_the_package(scene: FolderScene, tmp_path: Path) -> None:
    package = Path(lakesweep.__file__).parent
    copied = tmp_path / "other" / "lakesweep"
    shutil.copytree(package, copied, ignore=shutil.ignore_patterns("__pycache__"))
    stated = copied / "__init__.py"
    assert lakesweep.__version__ in stated.read_text()
    stated.write_text(stated.read_text().replace(lakesweep.__version__, "0.0.1"))
    before = scene.listed()

    finished = run(scene, "--control", scene.control.location, PYTHONPATH=str(copied.parent))

    refused(scene, finished, 2, "version_mismatch", "an executor has lakesweep 0.0.1", lakesweep.__version__)
    assert scene.listed() == before


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("module", ["pyarrow", "backports"])
def test_workers_that_lack_a_package(scene: FolderScene, tmp_path: Path, module: str) -> None:
    (tmp_path / "lacks").mkdir()
    text = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    (tmp_path / "lacks" / f"{module}.py").write_text(text)
    before = scene.listed()

    finished = run(scene, "--control", scene.control.location, PYTHONPATH=str(tmp_path / "lacks"))

    refused(scene, finished, 2, "spark_workers", "Spark's Python workers lack a package", module)
    assert scene.listed() == before


DENIED = "AKIADENIED"


@pytest.fixture
def s3_that_denies() -> Iterator[str]:
    """An S3 that refuses everything that is signed with one key; its URL."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    assert server._server is not None
    app = server._server.app
    lock = threading.Lock()

    def guarded(environ: Any, start_response: Any) -> Any:
        if f"Credential={DENIED}/" in environ.get("HTTP_AUTHORIZATION", ""):
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
            start_response("403 Forbidden", headers)
            return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]
        with lock:
            return app(environ, start_response)

    server._server.app = guarded
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("credentials", ["others", pytest.param("none", marks=pytest.mark.long)])
def test_executors_that_may_not_read(s3_that_denies: str, tmp_path: Path, credentials: str) -> None:
    """The driver may; its plan would be made of nothing."""
    boto3.client("s3", endpoint_url=s3_that_denies, region_name="us-east-1").create_bucket(Bucket="lake")
    settings = StoreSettings(endpoint_url=s3_that_denies, region="us-east-1")
    scene = OrphanScene(store=open_store("s3://lake/db.db/t", settings=settings))
    scene.table.commit("+A")
    scene.orphan("b")
    before = scene.listed()
    key = DENIED if credentials == "others" else ""

    finished = submit(
        JOB,
        "s3://lake/db.db/t",
        "--json",
        "--execute",
        "--control=s3://lake/control",
        f"--endpoint-url={s3_that_denies}",
        "--region=us-east-1",
        "--no-writers=a test",
        "--older-than=2026-01-01T00:00:00Z",
        scratch=tmp_path / "spark",
        changed={
            "spark.executorEnv.AWS_ACCESS_KEY_ID": key,
            "spark.executorEnv.AWS_SECRET_ACCESS_KEY": key,
            "spark.executorEnv.AWS_SESSION_TOKEN": "",
        },
    )

    assert finished.exit_code == 3, finished.output
    *sentences, document = finished.output.splitlines()
    assert len(sentences) == 1, finished.output
    assert "(in an executor)" in sentences[0]
    assert ("AccessDenied" in sentences[0] or "denied" in sentences[0]) == (credentials == "others"), sentences
    assert json.loads(document)["actions"] == []
    assert scene.listed() == before
    control = open_store("s3://lake/control", settings=settings)
    assert not [entry.key for entry in control.list("") if entry.key.endswith("header.json")]


@pytest.mark.long
def test_a_table_on_s3_without_a_control_location(s3_that_denies: str, tmp_path: Path) -> None:
    boto3.client("s3", endpoint_url=s3_that_denies, region_name="us-east-1").create_bucket(Bucket="lake")
    place = ("s3://lake/db.db/t", f"--endpoint-url={s3_that_denies}", "--region=us-east-1")

    finished = submit(JOB, *place, "--json", scratch=tmp_path / "spark")

    assert finished.exit_code == 2, finished.output
    assert "--control" in finished.output
    assert "Traceback" not in finished.output
