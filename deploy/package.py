"""Package a build: archives named by their content, and a template that names them and needs no macro.

    python deploy/package.py --bucket ops --prefix lakesweep --output build/package [--upload]

`make build` comes first. The template is plain CloudFormation: SAM's transform is applied here, so it can be taken by
Terraform, CDK and organisations that forbid macros. The same sources give the same bytes.
"""

import argparse
import copy
import hashlib
import io
import json
import logging
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

_CODE = ("CodeUri", "ContentUri")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package(build: Path, built_for: Mapping[str, str], bucket: str, prefix: str, output: Path) -> Path:
    """Package what `sam build` made, and return the template; the archives are beside it.

    Args:
        build: The folder of `sam build`.
        built_for: `Runtime` and `Architecture`. The template's parameters of these names take nothing else.
        bucket: The archives will lie in this bucket, which must be in the stack's region.
        prefix: Below which the objects are put.
        output: The folder of all these files. Those of an earlier package are removed.

    Raises:
        SystemExit: Nothing was built.
    """
    if not (build / "template.yaml").is_file():
        raise SystemExit(f"{build} has no template.yaml: run `make build` first")
    template = yaml_parse((build / "template.yaml").read_text(encoding="utf-8"))
    for name, value in built_for.items():
        template["Parameters"][name] |= {"Default": value, "AllowedValues": [value]}
    output.mkdir(parents=True, exist_ok=True)
    for old in (*output.glob("*.zip"), *output.glob("template-*.json")):
        old.unlink()
    for name, resource in template["Resources"].items():
        for key in _CODE:
            if key in resource.get("Properties", {}):
                file = _write(output, name, "zip", archived(build / resource["Properties"][key]))
                resource["Properties"][key] = f"s3://{bucket}/{prefix}/{file.name}"
    return _write(output, "template", "json", (json.dumps(plain(template), indent=1) + "\n").encode())


def _write(folder: Path, name: str, kind: str, data: bytes) -> Path:
    """Write a file. Its name has a hash, so other content has another URL."""
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.{kind}"
    path.write_bytes(data)
    return path


def plain(template: Mapping[str, Any]) -> dict[str, Any]:
    """Apply SAM's transform, as CloudFormation would. Parameters stay parameters."""
    logging.getLogger("samtranslator").setLevel(logging.ERROR)  # it warns that nobody collects its metrics
    session = boto3.Session(region_name="us-east-1")  # it asks for one; the outcome is the same for all
    translated = Translator({}, Parser(), boto_session=session).translate(copy.deepcopy(dict(template)), {})
    document: dict[str, Any] = json.loads(json.dumps(translated, default=str))
    return document


def archived(folder: Path) -> bytes:
    """Return a folder as an archive: the same files give the same bytes, whenever and by whomever they were made."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.external_attr = 0o644 << 16  # Lambda runs as another user
            entry.create_system = 3
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


def upload(folder: Path, bucket: str, prefix: str) -> None:
    """Put every file where the template and its users look for it."""
    client = boto3.client("s3")
    for path in sorted((*folder.glob("*.zip"), *folder.glob("template-*.json"))):
        client.upload_file(str(path), bucket, f"{prefix}/{path.name}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(".aws-sam/build"))
    parser.add_argument("--runtime", default="python3.13")
    parser.add_argument("--architecture", default="arm64")
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", default="lakesweep")
    parser.add_argument("--output", type=Path, default=Path("build/package"))
    parser.add_argument("--upload", action="store_true")
    given = parser.parse_args()
    if not given.bucket:
        raise SystemExit("state the bucket: make package BUCKET=NAME")
    prefix = given.prefix.strip("/")
    built_for = {"Runtime": given.runtime, "Architecture": given.architecture}
    template = package(given.build, built_for, given.bucket, prefix, given.output)
    region = boto3.Session().region_name or "REGION"
    url = f"https://{given.bucket}.s3.{region}.amazonaws.com/{prefix}/{template.name}"
    if given.upload:
        upload(given.output, given.bucket, prefix)
        sys.stdout.write(f"{url}\n")
    else:
        sys.stdout.write(f"aws s3 cp --recursive {given.output} s3://{given.bucket}/{prefix}\n{url}\n")


if __name__ == "__main__":
    main()
