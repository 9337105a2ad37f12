"""`--html`: the file is written whole or not at all, and what it may not be is said before the work begins."""

import builtins
import os
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.page import PageFile
from tests.unit.cli.command_line import call


def plan(folder: Path) -> str:
    return str(call("expire-snapshots", folder, "--json").document["plan_id"])


def test_the_page_of_a_plan_and_of_its_run(folder: Path, control: Path, tmp_path: Path) -> None:
    """Beside the text, and beside the document."""
    plan_id, page = plan(folder), tmp_path / "plan.html"
    shown = call("plans", folder, plan_id, "--html", page)
    size = page.stat().st_size
    assert shown.exit_code == 0
    assert shown.printed.splitlines()[-1] == f"page       {page}, {size / 1024:.1f} KiB"
    assert shown.printed.splitlines()[:-1] == call("plans", folder, plan_id).printed.splitlines()
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert plan_id in text
    assert text.endswith("</html>\n")
    run_id = call("execute", folder, plan_id, "--json").document["run_id"]
    told = call("report", folder, run_id, "--json", "--html", page)
    assert told.document == call("report", folder, run_id, "--json").document
    assert told.sentences == [f"lakesweep: page {page}, {page.stat().st_size / 1024:.1f} KiB"]
    assert f"Run {run_id}" in page.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".html"] == ["plan.html"]


def test_standard_output(folder: Path, control: Path) -> None:
    """The page replaces the text, and cannot stand beside the document."""
    plan_id = plan(folder)
    printed = call("plans", folder, plan_id, "--html", "-").printed
    assert printed.startswith("<!doctype html>")
    assert printed.endswith("</html>\n")
    both = call("plans", folder, plan_id, "--html", "-", "--json")
    assert (both.exit_code, both.document["error"]["code"]) == (2, "bad_argument")


def test_a_list_of_plans_has_no_page(folder: Path, control: Path, tmp_path: Path) -> None:
    answer = call("plans", folder, "--html", tmp_path / "plan.html")
    assert (answer.exit_code, answer.sentences) == (2, ["lakesweep: --html: expected a PLAN_ID, found none"])
    assert not (tmp_path / "plan.html").exists()


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("{folder}", "expected a file, found a folder: {folder}"),
        ("{folder}/none/page.html", "expected an existing folder, found none: {folder}/none"),
        ("{folder}/README/page.html", "cannot use {folder}/README/page.html: Not a directory"),
        (" ", "expected the path of a file, found none"),
    ],
)
def test_what_is_no_file_is_refused(folder: Path, control: Path, tmp_path: Path, file: str, says: str) -> None:
    (tmp_path / "README").touch()
    names = {"folder": str(tmp_path)}
    answer = call("plans", folder, "PLAN", "--html", file.format(**names))
    assert (answer.exit_code, answer.sentences) == (2, [f"lakesweep: --html: {says.format(**names)}"])


def test_a_command_that_fails_leaves_the_file(folder: Path, control: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("before")
    assert call("report", folder, "20260131T120000Z-1f2e3d4c", "--html", page).exit_code != 0
    assert page.read_text() == "before"


@pytest.mark.parametrize("broken", ["fdopen", "replace"])
def test_a_disk_that_refuses_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    page = tmp_path / "page.html"
    page.write_text("before")
    handles = []

    def refuse(first: Any, *rest: Any) -> None:
        if isinstance(first, int):
            handles.append(first)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if broken == "fdopen" else Path, broken, refuse)
    with pytest.raises(Exception, match=r"cannot write .*page\.html: No space left on device"):
        PageFile(str(page), lambda document, text: "").write("after")
    monkeypatch.undo()
    for handle in handles:
        os.close(handle)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("page.html", "before")]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """And the file keeps its mode, while a new one has the usual mode."""
    (tmp_path / "real.html").write_text("before")
    (tmp_path / "real.html").chmod(0o640)
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    PageFile(str(tmp_path / "link.html"), lambda document, text: "").write("after")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "after"
    assert (tmp_path / "real.html").stat().st_mode & 0o777 == 0o640
    mask = os.umask(0o027)
    try:
        PageFile(str(tmp_path / "new.html"), lambda document, text: "").write("after")
    finally:
        os.umask(mask)
    assert (tmp_path / "new.html").stat().st_mode & 0o777 == 0o640


def test_without_the_packages(folder: Path, control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, before anything is read."""
    usual = builtins.__import__

    def lacking(name: str, *rest: Any) -> Any:
        if name in ("jinja2", "vl_convert"):
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    answer = call("plans", folder, "PLAN", "--html", tmp_path / "page.html", "--json")
    assert answer.exit_code == 2
    assert answer.document["error"] == {
        "code": "extra_missing",
        "message": "a page needs jinja2 and vl-convert-python, found no jinja2 and no vl-convert-python: "
        "pip install 'lakesweep[html]'",
    }
