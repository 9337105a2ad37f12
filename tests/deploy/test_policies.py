"""The IAM policies in deploy/policies: what the deployer and people with laptops may do."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from deploy.package import plain
from lakesweep.storage.open import _client
from tests.support.iam import NOT_BY_RUNS, Call, Role, assert_allowed, person, recorded, unused_permissions
from tests.support.mocked_aws import mocked_aws
from tests.support.policy_lint import findings_of
from tests.support.stack import ACCOUNT, REGION, TEMPLATE, load_template
from tests.unit.cli.command_line import call, contents, write_table

POLICIES = TEMPLATE.parent / "deploy" / "policies"
NAMES = ("deployer", "reader", "planner", "operator")
TABLE, CONTROL, POLICY = "s3://lake/warehouse/sales.db/orders", "s3://control/lakesweep", "s3://ops/policy.json"
PLACES = {
    "ACCOUNT": ACCOUNT,
    "REGION": REGION,
    "STACK": "lakesweep",
    "TABLE_BUCKET": "lake",
    "TABLE_PREFIX": "warehouse",
    "CONTROL_BUCKET": "control",
    "CONTROL_PREFIX": "lakesweep",
    "POLICY_BUCKET": "ops",
    "POLICY_KEY": "policy.json",
    "ARTIFACT_BUCKET": "ops",
}
NOT_USED = re.compile(
    # Services and features that no resource of the template uses.
    r"(kms|sso|ecr|s3tables|elasticfilesystem|s3files|firehose):.*|ec2:(CreateNetworkInterface|DescribeNetworkInterfaces)"
    r"|iam:(Attach|Detach)(Group|User)Policy|s3:(REST\.PUT\.OBJECT|PutObjectAcl|PutBucketAcl|DeleteObject)"
    r"|s3:Put(BucketAbac|Analytics|BucketCORS|Inventory|Metrics|BucketNotification|BucketReplication|BucketWebsite"
    r"|Accelerate|Replication|BucketObjectLock|ObjectLock|BucketLogging|IntelligentTiering).*"
    r"|s3:(Create|Delete|Update)BucketMetadata.*"
    r"|s3:DeleteBucket(Website|Analytics.*|Cors|Metrics.*|Encryption|Lifecycle|Replication)"
    r"|lambda:(PutFunctionScaling|PassCapacity|AssociateRuntime|(Get|Put|Delete)(Function)?CodeSigning"
    r"|PutRuntimeManagement|PutFunctionCodeSigning|DeleteFunctionCodeSigning).*"
    r"|logs:(.*ResourcePolic.*|.*LogDelivery|Put.*IndexPolicy|DeleteIndexPolicy|(Put|Delete)DataProtectionPolicy"
    r"|PutBearerTokenAuthentication|PutLogGroupDeletionProtection)"
)
BY_SAM = re.compile(
    r"cloudformation:.*|s3:(GetObject|GetObjectVersion|PutObject|DeleteObject|ListBucket|GetBucketLocation)"
    r"|s3:(Get|Put)BucketNotification|logs:(FilterLogEvents|AssociateKmsKey)|emr-serverless:StopApplication"
)
"""What `sam deploy`, `sam logs`, `enable-events` and people of docs/deploy.md ask for themselves."""


def document_of(name: str) -> dict[str, Any]:
    """Return a policy with its placeholders filled in."""
    text = (POLICIES / f"{name}.json").read_text(encoding="utf-8")
    filled = re.sub(r"\b(?:" + "|".join(PLACES) + r")\b", lambda found: PLACES[found[0]], text)
    document: dict[str, Any] = json.loads(filled)
    return document


LOOKS = ("LookAtFunctions", "LookAtQueues", "LookAtConnections", "LookAtNotifications")
"""What `doctor --stack` asks for."""


def someone(name: str) -> Role:
    return person(name, document_of(name))


def actions_of(name: str) -> set[str]:
    found = (statement["Action"] for statement in document_of(name)["Statement"] if statement["Effect"] == "Allow")
    return {action for each in found for action in ([each] if isinstance(each, str) else each)}


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_valid_and_fits(name: str) -> None:
    """A managed policy has at most 6 144 characters."""
    document = document_of(name)
    assert [str(it) for it in findings_of(document) if not is_known(it, document)] == []
    assert len(json.dumps(document, separators=(",", ":"))) <= 6144
    left = re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", json.dumps(document))
    assert left == [], "a placeholder that the page does not name"
    page = (TEMPLATE.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert f"deploy/policies/{name}.json" in page


def is_known(finding: Any, document: dict[str, Any]) -> bool:
    """Tell whether a finding is none: AWS's own ARNs have `aws` for an account, and a pattern may match too much."""
    if finding.issue == "INVALID_ARN":
        return "aws:transform/Serverless-2016-10-31" in str(finding)
    stated = json.dumps(document)
    return finding.issue == "RESOURCE_MISMATCH" and not any(f'"{it["action"]}"' in stated for it in finding.detail)


def test_there_are_no_others() -> None:
    assert {path.stem for path in POLICIES.iterdir()} == set(NAMES)


# --- the deployer ----------------------------------------------------------------------------------------------------


def needed() -> dict[str, set[str]]:
    """Return what CloudFormation asks for, by resource type, as its registry states it."""
    template = load_template()
    for resource in template["Resources"].values():
        for key in ("CodeUri", "ContentUri"):
            if key in resource.get("Properties", {}):
                resource["Properties"][key] = "s3://ops/code.zip"
    found: dict[str, set[str]] = {}
    for kind in {resource["Type"] for resource in plain(template)["Resources"].values()}:
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema["handlers"]
        steps = (handlers.get(step, {}) for step in ("create", "read", "update", "delete"))
        found[kind] = {action for step in steps for action in step.get("permissions", ())}
    return found


def test_the_deployer_may_make_every_resource_of_the_template() -> None:
    allowed = actions_of("deployer")
    missing = {
        (kind, action)
        for kind, actions in needed().items()
        for action in actions
        if not NOT_USED.fullmatch(action) and not any(fnmatchcase(action, each) for each in allowed)
    }
    assert missing == set()


def test_the_deployer_may_do_nothing_else() -> None:
    wanted = {action for actions in needed().values() for action in actions}
    extra = {
        each
        for each in actions_of("deployer")
        if not BY_SAM.fullmatch(each) and not any(fnmatchcase(action, each) for action in wanted)
    }
    assert extra == set()


def test_the_deployer_touches_the_stacks_own_resources_alone() -> None:
    deployer = someone("deployer")
    here = f"{REGION}:{ACCOUNT}"
    for action, own, other in (
        ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/lakesweep-ExpireRole-1", f"arn:aws:iam::{ACCOUNT}:role/admin"),
        ("sqs:DeleteQueue", f"arn:aws:sqs:{here}:lakesweep-expire.fifo", f"arn:aws:sqs:{here}:other"),
        (
            "lambda:UpdateFunctionCode",
            f"arn:aws:lambda:{here}:function:lakesweep-expire",
            f"arn:aws:lambda:{here}:function:x",
        ),
        ("s3:DeleteBucket", "arn:aws:s3:::lakesweep-owncontrolbucket-1", "arn:aws:s3:::lake"),
        ("s3:PutBucketNotification", "arn:aws:s3:::lake", "arn:aws:s3:::other"),
    ):
        assert deployer.decide(action, own) == "allowed", own
        assert deployer.decide(action, other) == "not allowed", other
    for action in ("s3:GetObject", "s3:DeleteObject"):
        assert deployer.decide(action, "arn:aws:s3:::lake/warehouse/sales.db/orders/snapshot/LATEST") == "not allowed"
    role = f"arn:aws:iam::{ACCOUNT}:role/lakesweep-ExpireRole-1"
    assert deployer.decide("iam:PassRole", role, {"iam:PassedToService": "lambda.amazonaws.com"}) == "allowed"
    assert deployer.decide("iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"}) == "not allowed"


# --- people ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table in S3 whose retention is stated, a control location, and a fleet policy."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("LAKESWEEP_CONTROL", CONTROL)
    monkeypatch.setenv("LAKESWEEP_POLICY", POLICY)
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    options = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    write_table(tmp_path / "orders", options=options)
    _client.cache_clear()
    with mocked_aws():
        client = boto3.client("s3")
        for bucket in ("lake", "control", "ops"):
            client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": "Enabled"})
        for path, body in contents(tmp_path / "orders").items():
            client.put_object(Bucket="lake", Key=f"warehouse/sales.db/orders/{path}", Body=body)
        fleet = {"version": 1, "rules": [{"tables": "s3://lake/", "mode": "delete"}]}
        client.put_object(Bucket="ops", Key="policy.json", Body=json.dumps(fleet).encode())
        yield
    _client.cache_clear()


def run(*argv: str) -> dict[str, Any]:
    """Run one command."""
    answer = call(*argv, "--json")
    assert answer.exit_code in (0, 6), (argv, answer.printed, answer.messages)
    return answer.document


def reads() -> None:
    for command in ("show", "check", "explain", "plans", "runs", "files", "tags", "branches"):
        run(command, TABLE)
    run("policy", "test", TABLE)


def plans() -> str:
    run("remove-orphan-files", TABLE)
    run("maintain", TABLE)
    return str(run("expire-snapshots", TABLE)["plan_id"])


def assert_exact(role: Role, calls: list[Call], *apart_from: str) -> None:
    """Fail unless a policy allows all that the commands asked for, and nothing that none did."""
    assert_allowed(role, calls)
    assert unused_permissions(role, calls, {**NOT_BY_RUNS, **dict.fromkeys(apart_from, "")}) == []


@pytest.mark.usefixtures("lake")
def test_a_reader_reads_and_writes_nothing() -> None:
    plans()
    with recorded() as calls:
        reads()
    assert_exact(someone("reader"), calls)
    for bucket in ("lake/warehouse", "control/lakesweep"):
        assert someone("reader").decide("s3:PutObject", f"arn:aws:s3:::{bucket}/x") == "not allowed"


@pytest.mark.usefixtures("lake")
def test_a_planner_stores_plans_and_changes_no_table() -> None:
    with recorded() as calls:
        reads()
        plans()
    planner = someone("planner")
    assert_exact(planner, calls)
    with pytest.raises(AssertionError, match="s3:PutObject"):
        assert_allowed(someone("reader"), calls)
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert planner.decide(action, "arn:aws:s3:::lake/warehouse/sales.db/orders/tag/tag-a") == "not allowed"
    assert planner.decide(
        "lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:lakesweep-on-demand"
    ) == ("not allowed"), "the function executes what it is asked to"


@pytest.mark.usefixtures("lake")
def test_an_operator_executes_and_takes_back() -> None:
    with recorded() as calls:
        reads()
        run("create-tag", TABLE, "a", "--snapshot", "4", "--execute")
        executed = run("execute", TABLE, plans())
        run("undo", TABLE, str(executed["run_id"]), "--execute")
        run("create-branch", TABLE, "b", "--tag", "a", "--execute")
        run("fast-forward", TABLE, "b", "--execute")
        run("delete-branch", TABLE, "b", "--execute")
        run("maintain", TABLE, "--execute")
        run("truncate", TABLE, "--catalog-type", "filesystem", "--catalog-lock", "--execute")
        run("pause", TABLE, "--reason", "a look", "--until", "1 d", "--execute")
        run("resume", TABLE, "--execute")
    operator = someone("operator")
    assert_exact(operator, calls, "Ask", "AskForScans", *LOOKS)  # tests/unit/aws/test_deployment.py

    for key in ("manifest/other", "bucket-0/data-1.parquet"):
        assert operator.decide("s3:PutObject", f"arn:aws:s3:::lake/warehouse/sales.db/orders/{key}") == "denied"
    assert operator.decide("s3:DeleteObject", "arn:aws:s3:::control/lakesweep/tables/t/lease.json") == "not allowed"
