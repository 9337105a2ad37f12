"""The template as SAM translates it: what CloudFormation gets, deployed to moto as far as moto knows the resources."""

import base64
import copy
import hashlib
import json
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform

from deploy.package import package, upload
from tests.support.stack import DEPLOYMENTS, PARAMETERS, load_template
from tests.support.system.build import ARCHITECTURE, RUNTIME, build_here

CODE = "code"
POLICY_LIMIT = 6144
"""Characters of a managed policy, white space apart."""


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    # moto's CloudFormation imports it for API Gateway alone, which the template does not have.
    for name in ("", ".validation", ".validation.exceptions"):
        module = types.ModuleType(f"openapi_spec_validator{name}")
        module.validate = module.OpenAPIValidationError = Exception  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with mock_aws():
        yield


def translated(parameters: dict[str, str]) -> dict[str, Any]:
    """Return what SAM makes of the template; the code lies in a bucket."""
    template = load_template()
    for resource in template["Resources"].values():
        for key in ("CodeUri", "ContentUri"):
            if key in resource.get("Properties", {}):
                resource["Properties"][key] = f"s3://{CODE}/code.zip"
    found = transform(copy.deepcopy(template), dict(parameters), ManagedPolicyLoader(boto3.client("iam")))
    result: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return result


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_names_are_unique(aws: None, name: str) -> None:
    """SAM makes resources of its own, and names them after a function and its event."""
    template = translated({**PARAMETERS, **DEPLOYMENTS[name]})
    names = Counter([*template["Resources"], *template["Parameters"]])
    assert [each for each, count in names.items() if count > 1] == []


def without_spark(value: Any) -> Any:
    """Return a part of a template without the items of lists that only a deployment with Spark has."""
    if isinstance(value, dict):
        return {key: without_spark(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    spark = ("HasSpark", "HasInventory")
    return [without_spark(it) for it in value if not (isinstance(it, dict) and it.get("Fn::If", [""])[0] in spark)]


def test_moto_makes_the_stack_from_the_package(aws: None, tmp_path: Path) -> None:
    """With everything but EMR Serverless and schedules, which moto's CloudFormation does not know.

    Nor does moto leave out of a list what is `AWS::NoValue`.
    """
    built_for = {"Runtime": RUNTIME, "Architecture": ARCHITECTURE}
    parameters = {**PARAMETERS, **DEPLOYMENTS["everything"], **built_for, "SparkArtifacts": ""}
    client = boto3.client("s3")
    client.create_bucket(Bucket=CODE)
    path = package(build_here().folder, built_for, CODE, "lakesweep", tmp_path)
    upload(tmp_path, CODE, "lakesweep")
    assert path.stat().st_size < 1 << 20, "what CloudFormation takes from a bucket"
    template = without_spark(json.loads(path.read_text(encoding="utf-8")))
    unknown = ("SweepTrigger", "TagTrigger", "OrphanTrigger", "HouseTrigger")
    for kind in ("Resources", "Outputs"):
        template[kind] = {name: it for name, it in template[kind].items() if not name.startswith(unknown)}
    client.put_object(Bucket=CODE, Key=f"lakesweep/{path.name}", Body=json.dumps(template).encode())
    formation = boto3.client("cloudformation")
    formation.create_stack(
        StackName="lakesweep",
        TemplateURL=f"https://{CODE}.s3.amazonaws.com/lakesweep/{path.name}",
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    )
    (stack,) = formation.describe_stacks(StackName="lakesweep")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    assert len(stack["Outputs"]) > 20
    functions = {each["FunctionName"]: each for each in boto3.client("lambda").list_functions()["Functions"]}
    assert len(functions) == 9
    (archive,) = tmp_path.glob("OnDemand-*.zip")
    digest = base64.b64encode(hashlib.sha256(archive.read_bytes()).digest()).decode()
    assert functions["lakesweep-on-demand"]["CodeSha256"] == digest
    iam = boto3.client("iam")
    for policy in iam.list_policies(Scope="Local")["Policies"]:
        version = iam.get_policy_version(PolicyArn=policy["Arn"], VersionId="v1")["PolicyVersion"]["Document"]
        assert len(json.dumps(version, separators=(",", ":"))) < POLICY_LIMIT, policy["PolicyName"]
