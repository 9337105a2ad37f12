"""The template as CloudFormation sees it: for given parameters, without conditions and functions.

Only what the template uses is known here. Anything else raises, so that no test passes because something was left out.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"
ACCOUNT = "123456789012"
REGION = "us-east-1"
NAME = "lakesweep"
PARAMETERS: Mapping[str, str] = {"TableBuckets": "lake", "TablePrefixes": "lake/warehouse", "ControlBucket": "control"}
"""What a test gets unless it says otherwise."""

_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Region": REGION,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
_NOTHING = object()
"""`AWS::NoValue`: what has it is left out."""


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms."""


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        value = value.split(".", 1) if suffix == "GetAtt" else value
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def load_template() -> dict[str, Any]:
    """Return the template's document, with the long forms of functions; the caller may change it."""
    return copy.deepcopy(_template())


@cache
def _template() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(TEMPLATE.read_text(encoding="utf-8"), _Loader)
    return document


@dataclass(frozen=True, slots=True)
class Stack:
    """What a deployment with certain parameters consists of."""

    parameters: dict[str, Any]
    resources: dict[str, dict[str, Any]]
    """By logical id; those whose condition does not hold are missing."""
    outputs: dict[str, Any]
    name: str = NAME

    def of_type(self, resource_type: str) -> dict[str, dict[str, Any]]:
        """Return the properties of resources by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == resource_type
        }

    def environment(self, function: str) -> dict[str, str]:
        """Return what a function finds in its environment, by its logical id."""
        return {name: str(value) for name, value in self.function(function)["Environment"]["Variables"].items()}

    def function(self, name: str) -> dict[str, Any]:
        """Return a function's properties, with what is said once for all of them."""
        return self.of_type("AWS::Serverless::Function")[name]


def render(
    parameters: Mapping[str, str] | None = None, template: dict[str, Any] | None = None, name: str = NAME
) -> Stack:
    """Deploy on paper.

    Args:
        parameters: As given to CloudFormation, lists with commas; over `PARAMETERS`.
        template: Another than the project's.
        name: The stack's name.
    """
    return _Renderer(template or _template(), {**PARAMETERS, **(parameters or {})}, name).stack()


class _Renderer:
    def __init__(self, template: dict[str, Any], given: Mapping[str, str], name: str) -> None:
        self._template = template
        self._name = name
        self._resources = template["Resources"]
        unknown = set(given) - set(template["Parameters"])
        assert not unknown, f"no such parameters: {unknown}"
        self._parameters = {name: _parameter(name, it, given) for name, it in template["Parameters"].items()}

    def stack(self) -> Stack:
        for rule, it in self._template.get("Rules", {}).items():
            if self._holds(it["RuleCondition"]):
                assert all(self._holds(each["Assert"]) for each in it["Assertions"]), f"rule {rule} does not hold"
        shared = self._template.get("Globals", {}).get("Function", {})
        resources: dict[str, dict[str, Any]] = {}
        for name, resource in self._resources.items():
            if "Condition" in resource and not self._condition(resource["Condition"]):
                continue
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::Serverless::Function":
                properties = _merged(shared, properties)
            resources[name] = {**resource, "Properties": self._value(properties)}
        outputs = {
            name: self._value(output["Value"])
            for name, output in self._template.get("Outputs", {}).items()
            if "Condition" not in output or self._condition(output["Condition"])
        }
        return Stack(self._parameters, resources, outputs, self._name)

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            items = [self._value(item) for item in value]
            return [item for item in items if item is not _NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                return self._ref(argument)
            if name.startswith("Fn::"):
                return self._function(name.removeprefix("Fn::"), argument)
        items = {key: self._value(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if item is not _NOTHING}

    def _function(self, name: str, argument: Any) -> Any:
        if name == "If":
            condition, then, otherwise = argument
            return self._value(then if self._condition(condition) else otherwise)
        if name == "Join":
            delimiter, parts = argument
            return delimiter.join(str(part) for part in self._value(parts))
        if name == "Split":
            delimiter, text = argument
            return self._value(text).split(delimiter)
        if name == "Sub":
            return self._sub(*argument) if isinstance(argument, list) else self._sub(argument, {})
        if name == "GetAtt":
            return self._attribute(*argument)
        if name == "FindInMap":
            mapping, first, second = argument
            return self._template["Mappings"][mapping][first][second]
        raise NotImplementedError(f"Fn::{name}")

    def _sub(self, text: str, variables: dict[str, Any]) -> str:
        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name in variables:
                return str(self._value(variables[name]))
            return str(self._attribute(*name.split(".", 1)) if "." in name else self._ref(name))

        return re.sub(r"\$\{([A-Za-z0-9:.]+)\}", replaced, text)

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NOTHING
        if name == "AWS::StackName":
            return self._name
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in self._parameters:
            return self._parameters[name]
        return self._identity(name)[0]

    def _attribute(self, name: str, attribute: str) -> str:
        _, arn, own_name = self._identity(name)
        if attribute == "ApplicationId" and self._resources[name]["Type"] == "AWS::EMRServerless::Application":
            return own_name
        if attribute == "Arn":
            return arn
        if attribute == "QueueName" and self._resources[name]["Type"] == "AWS::SQS::Queue":
            return own_name
        raise NotImplementedError(f"{name}.{attribute}")

    def _identity(self, name: str) -> tuple[str, str, str]:
        """Return what `Ref` gives for a resource, its ARN and its name."""
        resource = self._resources[name]
        condition = resource.get("Condition")
        assert condition is None or self._condition(condition), f"{name} is referred to and not made"
        properties = resource.get("Properties", {})

        def named(key: str) -> str:
            return str(self._value(properties[key])) if key in properties else f"{self._name}-{name.lower()}"

        here = f"{REGION}:{ACCOUNT}"
        match resource["Type"]:
            case "AWS::SQS::Queue":
                own = named("QueueName")
                return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{own}", f"arn:aws:sqs:{here}:{own}", own
            case "AWS::Serverless::Function":
                own = named("FunctionName")
                return own, f"arn:aws:lambda:{here}:function:{own}", own
            case "AWS::Serverless::LayerVersion":
                return (arn := f"arn:aws:lambda:{here}:layer:{name}:1"), arn, name
            case "AWS::Logs::LogGroup":
                own = named("LogGroupName")
                return own, f"arn:aws:logs:{here}:log-group:{own}:*", own
            case "AWS::S3::Bucket":
                own = named("BucketName")
                return own, f"arn:aws:s3:::{own}", own
            case "AWS::IAM::Role":
                return name, f"arn:aws:iam::{ACCOUNT}:role/{name}", name
            case "AWS::IAM::ManagedPolicy":
                return (arn := f"arn:aws:iam::{ACCOUNT}:policy/{name}"), arn, name
            case "AWS::Events::Rule":
                return name, f"arn:aws:events:{here}:rule/{name}", name
            case "AWS::Scheduler::Schedule":
                return name, f"arn:aws:scheduler:{here}:schedule/default/{name}", name
            case "AWS::EMRServerless::Application":
                own = "00f1cbsc6anuij25"  # as the samples in events/ have it
                return own, f"arn:aws:emr-serverless:{here}:/applications/{own}", own
            case "AWS::CloudWatch::Dashboard":
                return named("DashboardName"), "", name
        raise NotImplementedError(f"a reference to {resource['Type']}")

    def _condition(self, name: str) -> bool:
        return self._holds(self._template["Conditions"][name])

    def _holds(self, condition: dict[str, Any]) -> bool:
        ((name, argument),) = condition.items()
        match name:
            case "Fn::Equals":
                one, other = (self._value(side) for side in argument)
                return bool(one == other)
            case "Fn::Not":
                return not self._holds(argument[0])
        raise NotImplementedError(name)


def _parameter(name: str, definition: dict[str, Any], given: Mapping[str, str]) -> Any:
    value = str(given.get(name, definition.get("Default", _NOTHING)))
    assert name in given or "Default" in definition, f"parameter {name} needs a value"
    allowed = definition.get("AllowedValues")
    assert allowed is None or value in map(str, allowed), f"{name}: {value!r} is none of {allowed}"
    values = value.split(",") if definition["Type"] == "CommaDelimitedList" else [value]
    pattern = definition.get("AllowedPattern")
    for each in values:
        assert pattern is None or re.fullmatch(pattern, each), f"{name}: {each!r} does not match {pattern}"
    if definition["Type"] == "Number":
        low, high = definition.get("MinValue", 0), definition.get("MaxValue", float("inf"))
        assert value.isdigit() and low <= int(value) <= high, f"{name}: {value!r} is no number from {low} to {high}"
    return values if definition["Type"] == "CommaDelimitedList" else value


def _merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge as SAM merges `Globals`: mappings key by key, lists one after the other."""
    merged = dict(shared)
    for key, value in own.items():
        before = merged.get(key)
        if _is_mapping(before) and _is_mapping(value):
            merged[key] = _merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            merged[key] = before + value
        else:
            merged[key] = value
    return merged


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict) and not any(key == "Ref" or key.startswith("Fn::") for key in value)


DEPLOYMENTS: dict[str, dict[str, str]] = {
    "least": {},
    "everything": {
        "TableBuckets": "lake,other-lake",
        "TablePrefixes": "lake/warehouse,lake/raw,other-lake",
        "ExternalBuckets": "outside,outside-too",
        "ExternalRoots": "outside/files,outside-too/files/of/lake",
        "ControlBucket": "",
        "PolicyLocation": "s3://config/lakesweep/policy.json",
        "AllowedAccounts": "123456789012,210987654321",
        "AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:alarms",
        "RunbookUrl": "https://wiki.example.org/lakesweep/operations",
        "SubnetIds": "subnet-0a,subnet-0b",
        "SecurityGroupIds": "sg-0a",
        "KmsKeyArns": "arn:aws:kms:us-east-1:123456789012:key/1,arn:aws:kms:us-east-1:123456789012:key/2",
        "PlanKey": "arn:aws:kms:us-east-1:123456789012:key/5,arn:aws:kms:us-east-1:123456789012:key/6",
        "QueueKmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/3",
        "LogKmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/4",
        "PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/boundary",
        "CreateOperatorRole": "true",
        "OperatorPrincipalArn": "arn:aws:iam::123456789012:role/oncall",
        "SparkArtifacts": "s3://artifacts/lakesweep/0.1.0",
        "SparkInventory": "inventory/lake",
    },
}
