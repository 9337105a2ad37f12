"""The template as SAM translates it: what CloudFormation gets, deployed to moto as far as moto knows the resources."""

import copy
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from samtranslator.translator.managed_policy_translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform

from tests.support.stack import DEPLOYMENTS, PARAMETERS, load_template

CODE = "code"
POLICY_LIMIT = 6144
"""Characters of a managed policy, white space apart."""


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
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


def test_moto_makes_the_stack(aws: None) -> None:
    """With everything: moto leaves a gap in a policy where CloudFormation leaves out what is `AWS::NoValue`."""
    pytest.importorskip("openapi_spec_validator", reason="moto needs it for CloudFormation")
    parameters = {**PARAMETERS, **DEPLOYMENTS["everything"]}
    template = translated(parameters)
    for kind in ("Resources", "Outputs"):  # moto does not know schedules
        template[kind] = {
            name: it
            for name, it in template[kind].items()
            if not name.startswith(("SweepTrigger", "TagTrigger", "OrphanTrigger"))
        }
    body = json.dumps(template)
    client = boto3.client("s3")
    client.create_bucket(Bucket=CODE)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("app.py", "def handler(event, context): pass")
    client.put_object(Bucket=CODE, Key="code.zip", Body=archive.getvalue())
    client.put_object(Bucket=CODE, Key="template.json", Body=body.encode())
    assert len(body) < 1 << 20, "what CloudFormation takes from a bucket"
    formation = boto3.client("cloudformation")
    formation.create_stack(
        StackName="lakesweep",
        TemplateURL=f"https://{CODE}.s3.amazonaws.com/template.json",
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    )
    (stack,) = formation.describe_stacks(StackName="lakesweep")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    assert len(stack["Outputs"]) > 20
    iam = boto3.client("iam")
    for policy in iam.list_policies(Scope="Local")["Policies"]:
        version = iam.get_policy_version(PolicyArn=policy["Arn"], VersionId="v1")["PolicyVersion"]["Document"]
        assert len(json.dumps(version, separators=(",", ":"))) < POLICY_LIMIT, policy["PolicyName"]
