"""The package for those who deploy without SAM: archives by their content, and a template without a macro."""

import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deploy.package import package, plain
from tests.support.stack import TEMPLATE, load_template, render
from tests.support.system.build import ARCHITECTURE, RUNTIME, build_here

BUILT_FOR = {"Runtime": RUNTIME, "Architecture": ARCHITECTURE}


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packaged template."""
    return package(build_here().folder, BUILT_FOR, "ops", "lakesweep", tmp_path_factory.mktemp("package"))


def codes(template: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return where CloudFormation looks for the code of functions and layers, by logical id."""
    properties = {name: it.get("Properties", {}) for name, it in template["Resources"].items()}
    kinds = {name: it["Type"] for name, it in template["Resources"].items()}
    keys = {"AWS::Lambda::Function": "Code", "AWS::Lambda::LayerVersion": "Content"}
    return {name: properties[name][keys[kind]] for name, kind in kinds.items() if kind in keys}


def test_archives_hold_what_was_built_and_are_named_by_it(packaged: Path) -> None:
    built = build_here().folder
    found = codes(json.loads(packaged.read_text(encoding="utf-8")))
    assert len(found) == 12
    for code in found.values():
        prefix, _, file = code["S3Key"].rpartition("/")
        assert (code["S3Bucket"], prefix) == ("ops", "lakesweep")
        path = packaged.parent / file
        name, digest = path.stem.split("-")
        assert hashlib.sha256(path.read_bytes()).hexdigest().startswith(digest)
        with zipfile.ZipFile(path) as archive:
            held = {entry: archive.read(entry) for entry in archive.namelist()}
        folder = built / name
        files = [each for each in folder.rglob("*") if each.is_file()]
        assert held == {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}
    files = {code["S3Key"].rpartition("/")[2] for code in found.values()} | {packaged.name}
    assert {path.name for path in packaged.parent.iterdir()} == files


def test_the_same_build_gives_the_same_bytes(packaged: Path, tmp_path: Path) -> None:
    """Wherever and whenever it was made. What an earlier package left goes, and nothing else."""
    build = tmp_path / "build"
    shutil.copytree(build_here().folder, build, copy_function=shutil.copyfile)
    for name in ("Expire-0123456789abcdef.zip", "template-0123456789abcdef.json", "notes.txt"):
        (tmp_path / name).write_text("old")
    again = package(build, BUILT_FOR, "ops", "lakesweep", tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert files.pop("notes.txt") == b"old"
    assert files == {path.name: path.read_bytes() for path in packaged.parent.iterdir()}
    assert again.name == packaged.name


def test_the_template_needs_no_macro_and_keeps_its_parameters(packaged: Path) -> None:
    """Nor does it name a role, for which CloudFormation would want another capability."""
    text = packaged.read_text(encoding="utf-8")
    template, source = json.loads(text), load_template()
    assert "Transform" not in template
    assert "AWS::Serverless" not in text
    assert not re.search(r'"(RoleName|ManagedPolicyName|UserName|GroupName)":', text)
    for name in source["Resources"].keys() - {"BaseLayer", "PackageLayer"}:
        assert name in template["Resources"]
    for kind in ("Conditions", "Rules", "Mappings"):
        assert template[kind] == source[kind]
    assert template["Outputs"].keys() == source["Outputs"].keys()
    changed = {name for name, it in template["Parameters"].items() if it != source["Parameters"][name]}
    assert template["Parameters"].keys() == source["Parameters"].keys()
    assert changed == set(BUILT_FOR)
    for name, value in BUILT_FOR.items():
        assert (template["Parameters"][name]["Default"], template["Parameters"][name]["AllowedValues"]) == (
            value,
            [value],
        )


def test_no_value_of_a_parameter_is_decided_here() -> None:
    template = load_template()
    for resource in template["Resources"].values():
        for key in ("CodeUri", "ContentUri"):
            if key in resource.get("Properties", {}):
                resource["Properties"][key] = "s3://ops/code.zip"
    first = plain(template)
    for parameter in template["Parameters"].values():
        parameter.pop("Default", None)
    second = plain(template)
    assert first["Resources"] == second["Resources"]
    assert first["Outputs"] == second["Outputs"]


def test_nothing_is_packaged_without_a_build(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="make build"):
        package(tmp_path, BUILT_FOR, "ops", "lakesweep", tmp_path / "package")


def test_the_page_names_parameters_that_exist_and_the_capability() -> None:
    page = (TEMPLATE.parent / "docs" / "package.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^```(hcl|python|sh)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL))
    hcl = re.search(r"parameters = \{(.*?)\}", blocks["hcl"], re.DOTALL)
    assert hcl is not None
    named = [
        dict(re.findall(r'(\w+) += "([^"]*)"', hcl[1])),
        dict(re.findall(r"ParameterKey=(\w+),ParameterValue=(\S+)", page)),
        dict(re.findall(r'"(\w+)": "([^"]*)"', blocks["python"])),
    ]
    for parameters in named:
        assert parameters["TableBuckets"] == "lake"
        render(parameters)
    compile(blocks["python"], "docs/package.md", "exec")
    assert "CAPABILITY_IAM" in blocks["sh"] and "CAPABILITY_IAM" in blocks["hcl"]
