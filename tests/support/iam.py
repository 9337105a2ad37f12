"""What a role of the template may do: an evaluator of IAM policies, and a recorder of what code asks of AWS.

    stack = render()
    with recorded() as calls:
        handler(event, context)
    assert_allowed(role(stack, "ExpireRole"), calls)
    assert unused_permissions(role(stack, "ExpireRole"), calls) == []

The rules are those of identity policies in one account: what some statement allows and none denies. Nothing else is
known here (no resource policies, boundaries or session policies), and what the template does not use raises.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest import mock
from urllib.parse import urlsplit

from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.s3.object_reader import Fetched, ObjectReader
from tests.support.stack import ACCOUNT, REGION, Stack

Decision = Literal["allowed", "denied", "not allowed"]

NOT_BY_RUNS: Mapping[str, str] = {
    "Receive": "Lambda takes messages from the queue, and removes them",
    "Log": "Lambda writes what the function prints",
    "Trace": "Lambda's active tracing",
    "QueueKey": "SQS asks for the key when a message is sent or received",
    "Decrypt": "S3 asks for the key when an object is read",
    "Encrypt": "S3 asks for the key when an object is written",
    "Attach": "Lambda makes the interfaces in the VPC",
    "Describe": "and looks at its subnets",
    "FindOwnDeletions": "a run that finishes the plan of one that died; tests/system/test_chaos.py kills some",
    "FindOwnDeletionsElsewhere": "the same outside of tables",
}
"""Statements that no call of an undisturbed run needs, by Sid, and who does."""


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that is asked of AWS: an operation may be several, such as the keys of DeleteObjects."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a policy."""

    policy: str
    sid: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    not_resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, Any]]

    def applies(self, call: Call) -> bool:
        """Tell whether this statement has something to say about a call."""
        return (
            any(_like(action.lower(), call.action.lower()) for action in self.actions)
            and self._concerns(call.resource)
            and all(_holds(operator, keys, call.context) for operator, keys in self.condition.items())
        )

    def _concerns(self, resource: str) -> bool:
        if self.not_resources:
            return not any(_like(pattern, resource) for pattern in self.not_resources)
        return any(_like(pattern, resource) for pattern in self.resources)


@dataclass(frozen=True, slots=True)
class Role:
    """A role with all of its policies."""

    name: str
    statements: tuple[Statement, ...]
    documents: Mapping[str, dict[str, Any]]
    """The policies by name, as JSON would have them."""

    def decide(self, action: str, resource: str, context: Mapping[str, str] | None = None) -> Decision:
        """Say whether a call passes. A denial that is stated goes before everything."""
        call = Call(action, resource, context or {})
        effects = {statement.effect for statement in self.statements if statement.applies(call)}
        return "denied" if "Deny" in effects else "allowed" if "Allow" in effects else "not allowed"


def role(stack: Stack, name: str) -> Role:
    """Return a role of the template by its logical id; its managed policies have to be the template's own."""
    properties = stack.of_type("AWS::IAM::Role")[name]
    shared = stack.of_type("AWS::IAM::ManagedPolicy")
    attached = [arn.rsplit("/", 1)[-1] for arn in properties.get("ManagedPolicyArns", ())]
    documents = {policy: shared[policy]["PolicyDocument"] for policy in attached}
    documents |= {each["PolicyName"]: each["PolicyDocument"] for each in properties.get("Policies", ())}
    statements = [_statement(policy, each) for policy, document in documents.items() for each in document["Statement"]]
    return Role(name, tuple(statements), documents)


def person(name: str, document: dict[str, Any]) -> Role:
    """Return somebody who has one policy."""
    return Role(name, tuple(_statement(name, each) for each in document["Statement"]), {name: document})


def role_of(stack: Stack, function: str) -> Role:
    """Return the role of a function by the function's logical id."""
    return role(stack, stack.function(function)["Role"].rsplit("/", 1)[-1])


def assert_allowed(of: Role, calls: Iterable[Call]) -> None:
    """Fail unless the role allows every call."""
    refused = {(call.action, call.resource): of.decide(call.action, call.resource, call.context) for call in calls}
    refused = {call: decision for call, decision in refused.items() if decision != "allowed"}
    assert not refused, f"{of.name}: {refused}"


def unused_permissions(
    of: Role, calls: Iterable[Call], apart_from: Mapping[str, str] = NOT_BY_RUNS
) -> list[tuple[str, str, str]]:
    """Return what a role allows that none of the calls needed, as (Sid, action, resource pattern).

    Args:
        of: The role.
        calls: All that was asked for under it.
        apart_from: Sids that need no call of the code, with the reason.
    """
    made = [call for call in set(calls) if of.decide(call.action, call.resource, call.context) == "allowed"]
    return [
        (statement.sid, action, resource)
        for statement in of.statements
        if statement.effect == "Allow" and statement.sid not in apart_from
        for action in statement.actions
        for resource in statement.resources
        if not any(_like(action.lower(), call.action.lower()) and _like(resource, call.resource) for call in made)
    ]


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Note what this process asks of AWS in the block, whatever the answer: through botocore, and through obstore.

    The requests are made. One operation is one note however often botocore repeats it. Only S3 and SQS are known.
    """
    calls: list[Call] = []
    make_api_call = BaseClient._make_api_call  # the one place that every operation of every client passes

    def noting(self: BaseClient, operation_name: str, api_params: dict[str, Any]) -> Any:
        found = calls_of(self.meta.service_model.service_name, operation_name, api_params)
        calls.extend(found)
        try:
            return make_api_call(self, operation_name, api_params)
        except ClientError as error:
            # S3 says that a key does not exist only to those who may list the bucket; it says "denied" to others.
            if error.response["Error"]["Code"] in ("NoSuchKey", "404") and found[0].action.startswith("s3:GetObject"):
                calls.append(Call("s3:ListBucket", f"arn:aws:s3:::{api_params['Bucket']}"))
            raise

    fetch = ObjectReader.get

    def noting_reads(self: ObjectReader, key: str, *words: Any, **more: Any) -> Any:
        arn = f"arn:aws:s3:::{self.bucket}"
        try:
            found = fetch(self, key, *words, **more)
        except ObjectNotFoundError:
            calls.extend([Call("s3:GetObject", f"{arn}/{key}"), Call("s3:ListBucket", arn)])
            raise
        if isinstance(found, Fetched):  # otherwise botocore asks
            calls.append(Call("s3:GetObject", f"{arn}/{key}"))
        return found

    with mock.patch.object(BaseClient, "_make_api_call", noting), mock.patch.object(ObjectReader, "get", noting_reads):
        yield calls


def calls_of(service: str, operation: str, asked: Mapping[str, Any]) -> Sequence[Call]:
    """Return what an operation needs to be allowed.

    Source: "Actions, resources, and condition keys" for Amazon S3, Amazon SQS and Amazon EMR Serverless (Service
    Authorization Reference).
    """
    if service == "sqs" and operation in _SQS_ACTIONS:
        account, name = urlsplit(asked["QueueUrl"]).path.strip("/").split("/")
        return [Call(f"sqs:{_SQS_ACTIONS[operation]}", f"arn:aws:sqs:{REGION}:{account}:{name}")]
    if service == "emr-serverless":
        return _of_emr(operation, asked)
    if service != "s3":
        raise NotImplementedError(f"{service} {operation}")
    bucket = f"arn:aws:s3:::{asked['Bucket']}"
    version = "Version" if asked.get("VersionId") else ""
    # Who names an ETag is told whether it is that of the object, which is a read.
    reads = [Call("s3:GetObject", f"{bucket}/{asked['Key']}")] if asked.get("IfMatch") else []
    match operation:
        case "GetObject" | "HeadObject":
            return [Call(f"s3:GetObject{version}", f"{bucket}/{asked['Key']}")]
        case "PutObject":
            assert not {"ACL", "Tagging", "ObjectLockMode", "ObjectLockRetainUntilDate"} & set(asked), asked
            conditions = {"s3:if-none-match": str(asked["IfNoneMatch"])} if "IfNoneMatch" in asked else {}
            return [Call("s3:PutObject", f"{bucket}/{asked['Key']}", conditions), *reads]
        case "DeleteObject":
            return [Call(f"s3:DeleteObject{version}", f"{bucket}/{asked['Key']}"), *reads]
        case "DeleteObjects":
            return [each for entry in asked["Delete"]["Objects"] for each in _deletes(bucket, entry)]
        case "ListObjectsV2" | "ListObjectVersions":
            action = "s3:ListBucket" if operation == "ListObjectsV2" else "s3:ListBucketVersions"
            keys = {"Prefix": "s3:prefix", "Delimiter": "s3:delimiter", "MaxKeys": "s3:max-keys"}
            return [Call(action, bucket, {keys[name]: str(asked[name]) for name in keys if name in asked})]
        case "HeadBucket":
            return [Call("s3:ListBucket", bucket)]
        case "GetBucketVersioning":
            return [Call("s3:GetBucketVersioning", bucket)]
        case "GetBucketLifecycleConfiguration":
            return [Call("s3:GetLifecycleConfiguration", bucket)]
    raise NotImplementedError(f"s3 {operation}")


def _of_emr(operation: str, asked: Mapping[str, Any]) -> list[Call]:
    application = f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{asked['applicationId']}"
    match operation:
        case "StartJobRun":
            passed = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
            tagged = [application, f"{application}/jobruns/new"] if asked.get("tags") else []
            return [
                Call("emr-serverless:StartJobRun", application),
                *(Call("emr-serverless:TagResource", each) for each in tagged),
                Call("iam:PassRole", asked["executionRoleArn"], passed),
            ]
        case "GetJobRun":
            return [Call("emr-serverless:GetJobRun", f"{application}/jobruns/{asked['jobRunId']}")]
    raise NotImplementedError(f"emr-serverless {operation}")


def _deletes(bucket: str, entry: Mapping[str, Any]) -> Iterator[Call]:
    yield Call("s3:DeleteObjectVersion" if entry.get("VersionId") else "s3:DeleteObject", f"{bucket}/{entry['Key']}")
    if entry.get("ETag"):
        yield Call("s3:GetObject", f"{bucket}/{entry['Key']}")


_SQS_ACTIONS = {
    "SendMessage": "SendMessage",
    "SendMessageBatch": "SendMessage",
    "ReceiveMessage": "ReceiveMessage",
    "DeleteMessage": "DeleteMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibility": "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "GetQueueAttributes": "GetQueueAttributes",
}


def _statement(policy: str, document: Mapping[str, Any]) -> Statement:
    known = {"Sid", "Effect", "Action", "Resource", "NotResource", "Condition"}
    assert set(document) <= known, f"{policy}: {set(document) - known}"
    assert ("Resource" in document) != ("NotResource" in document), f"{policy}: {document}"
    return Statement(
        policy,
        document["Sid"],
        document["Effect"],
        _many(document["Action"]),
        _many(document.get("Resource", [])),
        _many(document.get("NotResource", [])),
        document.get("Condition", {}),
    )


def _many(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _like(pattern: str, value: str) -> bool:
    """Match as IAM does: `*` any text, slashes too, `?` one character, and everything else as it is."""
    assert "${" not in pattern, f"policy variables are not known here: {pattern}"
    parts = [{"*": ".*", "?": "."}.get(part) or re.escape(part) for part in re.split(r"([*?])", pattern)]
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _holds(operator: str, keys: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    """Tell whether a condition holds. A key that the request does not have matches nothing but `Null`."""
    if operator == "Null":
        return all((key not in context) == (wanted == "true") for key, wanted in keys.items())
    compare = {
        "StringEquals": lambda wanted, found: wanted == found,
        "StringLike": _like,
        "ArnEquals": _like,  # ArnEquals is ArnLike
        "ArnLike": _like,
        "Bool": lambda wanted, found: wanted.lower() == found.lower(),
    }.get(operator)
    if compare is None:
        raise NotImplementedError(f"condition operator {operator}")
    return all(
        key in context and any(compare(wanted, context[key]) for wanted in _many(values))
        for key, values in keys.items()
    )
