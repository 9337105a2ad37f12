"""What the roles of the template may and may not do.

What each function asks for when it runs is held against its role by the tests of the functions. These are about what no
function may ask for, and about the evaluator and the recorder themselves.
"""

import json
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from tests.support.iam import Call, Role, assert_allowed, calls_of, recorded, role, role_of, unused_permissions
from tests.support.policy_lint import findings_of
from tests.support.stack import DEPLOYMENTS, render

FUNCTIONS = (
    "OnSnapshotWritten",
    "Expire",
    "ExecuteBatch",
    "Committer",
    "Sweep",
    "TagSchedule",
    "OrphanScan",
    "OrphanWorker",
    "OnDemand",
)
EXECUTORS = ("Expire", "ExecuteBatch")
PLANNERS = ("OnSnapshotWritten", "Sweep", "TagSchedule", "OrphanScan", "OrphanWorker", "OnDemand")
SPARK = {"SparkArtifacts": "s3://artifacts/lakesweep/1", "SparkInventory": "inventory/lake"}
JOBS = ("SparkPlannerRole", "SparkExecutorRole", "SparkCommitterRole")
EMR = "emr-serverless.amazonaws.com"
TABLE = "arn:aws:s3:::lake/warehouse/sales.db/orders"
CONTROL = "arn:aws:s3:::control/lakesweep/tables/orders"


@pytest.fixture(scope="module")
def roles() -> dict[str, Role]:
    stack = render()
    return {name: role_of(stack, name) for name in FUNCTIONS}


@pytest.fixture(scope="module")
def operator() -> Role:
    return role(render(DEPLOYMENTS["everything"] | {"ControlBucket": "control"}), "OperatorRole")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "TagSchedule"])
def test_everyone_reads_tables_and_control(roles: dict[str, Role], name: str) -> None:
    for action, resource in (
        ("s3:GetObject", f"{TABLE}/snapshot/snapshot-1"),
        ("s3:GetObject", f"{TABLE}/schema/schema-0"),
        ("s3:GetObject", f"{CONTROL}/state.json"),
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::control"),
    ):
        assert roles[name].decide(action, resource) == "allowed", (action, resource)


def test_a_sweep_for_tags_reads_states_alone(roles: dict[str, Role]) -> None:
    """What it needs to know of a table, passes have left for it."""
    tour = roles["TagSchedule"]
    for action, resource in (
        ("s3:GetObject", f"{CONTROL}/state.json"),
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:ListBucket", "arn:aws:s3:::control"),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-expire.fifo"),
    ):
        assert tour.decide(action, resource) == "allowed", (action, resource)
    for action, resource in (
        *(("s3:GetObject", f"{TABLE}/{key}") for key in ("snapshot/snapshot-1", "schema/schema-0", "tag/tag-a")),
        *(("s3:GetObject", f"{CONTROL}/{key}") for key in ("lease.json", "plans/p1/header.json", "reports/r1.json")),
        *((f"s3:{verb}Object", f"{CONTROL}/state.json") for verb in ("Put", "Delete")),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-execute"),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-commits"),
    ):
        assert tour.decide(action, resource) == "not allowed", (action, resource)


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("branch", ["", "/branch/branch-dev"])
def test_executors_delete_and_write_what_expiry_does(roles: dict[str, Role], name: str, branch: str) -> None:
    for action, key in (
        ("s3:DeleteObject", f"{TABLE}{branch}/snapshot/snapshot-1"),
        ("s3:DeleteObject", f"{TABLE}/dt=1/bucket-0/data-1.parquet"),
        ("s3:DeleteObject", f"{TABLE}/manifest/manifest-1"),
        ("s3:PutObject", f"{TABLE}{branch}/snapshot/EARLIEST"),
        ("s3:PutObject", f"{TABLE}{branch}/snapshot/LATEST"),
        ("s3:PutObject", f"{TABLE}{branch}/changelog/changelog-1"),
        ("s3:PutObject", f"{TABLE}{branch}/changelog/EARLIEST"),
        ("s3:PutObject", f"{TABLE}{branch}/consumer/consumer-a"),
        ("s3:PutObject", f"{TABLE}{branch}/tag/tag-a"),
        ("s3:PutObject", f"{TABLE}{branch}/tag/tag-success-file/tag-a_SUCCESS"),
        ("s3:DeleteObject", f"{TABLE}{branch}/tag/tag-a"),
        ("s3:DeleteObject", f"{TABLE}{branch}/tag/tag-success-file/tag-a_SUCCESS"),
        ("s3:PutObject", f"{CONTROL}/lease.json"),
    ):
        assert roles[name].decide(action, key) == "allowed", (action, key)


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject"])
@pytest.mark.parametrize("branch", ["", "/branch/branch-dev"])
def test_schemas_are_denied_to_executors(roles: dict[str, Role], name: str, action: str, branch: str) -> None:
    assert roles[name].decide(action, f"{TABLE}{branch}/schema/schema-0") == "denied"
    # Also where the table's own folder is what the parameter names.
    own = role_of(render({"TablePrefixes": "lake/warehouse/sales.db/orders"}), name)
    assert own.decide(action, f"{TABLE}{branch}/schema/schema-0") == "denied"


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("folder", ["schema", "changelog", "snapshot"])
def test_a_folder_above_the_tables_may_be_called_anything(name: str, folder: str) -> None:
    """A denial that is meant for a table's own folder must not reach all tables below one of that name, nor allow."""
    of = role_of(render({"TablePrefixes": f"lake/{folder}"}), name)
    table = f"arn:aws:s3:::lake/{folder}/db.db/t"
    for key in ("snapshot/snapshot-1", "bucket-0/data-1.parquet", "manifest/manifest-1"):
        assert of.decide("s3:DeleteObject", f"{table}/{key}") == "allowed"
        assert of.decide("s3:PutObject", f"{table}/{key}") == "denied"
    assert of.decide("s3:PutObject", f"{table}/snapshot/EARLIEST") == "allowed"
    for action in ("s3:DeleteObject", "s3:PutObject"):
        assert of.decide(action, f"{table}/schema/schema-0") == "denied"
        assert of.decide(action, f"{table}/branch/branch-rt/schema/schema-12") == "denied"


@pytest.mark.parametrize("name", EXECUTORS)
def test_executors_find_the_deletions_of_a_run_that_died(roles: dict[str, Role], name: str) -> None:
    """By their delete markers. Executors list versions, and neither read nor delete any."""
    assert roles[name].decide("s3:ListBucketVersions", "arn:aws:s3:::lake") == "allowed"
    external = role_of(render({"ExternalRoots": "other/data", "ExternalBuckets": "other"}), name)
    assert external.decide("s3:ListBucketVersions", "arn:aws:s3:::other") == "allowed"
    for action in ("s3:GetObjectVersion", "s3:DeleteObjectVersion"):
        assert roles[name].decide(action, f"{TABLE}/dt=1/bucket-0/data-1.parquet") == "not allowed", action


@pytest.mark.parametrize("name", EXECUTORS)
def test_executors_overwrite_no_snapshot_and_no_data(roles: dict[str, Role], name: str) -> None:
    for key in ("snapshot/snapshot-1", "manifest/manifest-1", "dt=1/bucket-0/data-1.parquet", "tag/EARLIEST"):
        assert roles[name].decide("s3:PutObject", f"{TABLE}/{key}") == "denied"


@pytest.mark.parametrize("name", EXECUTORS)
@pytest.mark.parametrize("branch", ["", "/branch/branch-dev"])
def test_executors_write_a_snapshot_only_where_none_is(roles: dict[str, Role], name: str, branch: str) -> None:
    """A rollback to a tag makes one, and what a stale plan has taken returns."""
    key = f"{TABLE}{branch}/snapshot/snapshot-1"
    assert roles[name].decide("s3:PutObject", key, {"s3:if-none-match": "*"}) == "allowed"
    for context in ({}, {"s3:if-match": "etag"}):
        assert roles[name].decide("s3:PutObject", key, context) == "denied"


@pytest.mark.parametrize("branch", ["", "/branch/branch-dev"])
def test_a_commit_is_a_new_snapshot_and_its_manifests(roles: dict[str, Role], branch: str) -> None:
    """Manifests of every branch lie in one folder. Nothing that exists is written over."""
    of, anew = roles["Committer"], {"s3:if-none-match": "*"}
    manifests = [f"{TABLE}/manifest/{name}-1" for name in ("manifest-a", "manifest-list-a", "index-manifest-a")]
    for key in (f"{TABLE}{branch}/snapshot/snapshot-9", *manifests):
        assert of.decide("s3:PutObject", key, anew) == "allowed", key
        for context in ({}, {"s3:if-match": "etag"}):
            assert of.decide("s3:PutObject", key, context) == "denied", key
    documents = (f"{CONTROL}/{name}" for name in ("lease.json", "state.json", "reports/r1.json"))
    for key in (f"{TABLE}{branch}/snapshot/LATEST", *documents):
        assert of.decide("s3:PutObject", key) == "allowed", key


@pytest.mark.parametrize("prefix", ["lake/warehouse", "lake/warehouse/sales.db/orders"])
def test_a_commit_writes_nothing_else_and_deletes_nothing(prefix: str) -> None:
    """It is denied, and not only not allowed."""
    of, anew = role_of(render({"TablePrefixes": prefix}), "Committer"), {"s3:if-none-match": "*"}
    for key in (
        *("schema/schema-1", "branch/branch-dev/schema/schema-0", "tag/tag-a", "consumer/consumer-a", "index/other"),
        *("snapshot/EARLIEST", "changelog/changelog-1", "changelog/LATEST", "dt=1/bucket-0/data-1.parquet"),
        *("statistics/stats-1", "manifest/other"),
    ):
        assert of.decide("s3:PutObject", f"{TABLE}/{key}", anew) == "denied", key
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
        for key in ("snapshot/snapshot-1", "snapshot/LATEST", "manifest/manifest-1", "dt=1/bucket-0/data-1.parquet"):
            assert of.decide(action, f"{TABLE}/{key}") == "denied", key
        assert of.decide(action, f"{CONTROL}/lease.json") == "denied"
    assert of.decide("s3:PutObject", "arn:aws:s3:::lake/elsewhere/t/snapshot/snapshot-9", anew) == "not allowed"
    for key in ("snapshot/snapshot-9", "manifest/manifest-1", "index/index-1", "dt=1/bucket-0/index-1"):
        assert of.decide("s3:PutObject", f"{TABLE}/{key}", anew) == "allowed"
        assert of.decide("s3:PutObject", f"{TABLE}/{key}") == "denied", "it replaces nothing"


def test_the_job_that_commits_does_what_the_function_does() -> None:
    """It makes no tags, and new data files. All else that changes a table is decided alike."""
    stack = render(SPARK)
    job, function = role(stack, "SparkCommitterRole"), role_of(stack, "Committer")
    for context in ({"s3:if-none-match": "*"}, {}, {"s3:if-match": "etag"}):
        for key in (
            *("snapshot/snapshot-9", "branch/branch-b/snapshot/snapshot-9", "snapshot/LATEST", "snapshot/EARLIEST"),
            *("manifest/manifest-1", "manifest/index-manifest-1", "manifest/other", "index/index-1", "index/other"),
            *("dt=1/bucket-0/index-1", "dt=1/bucket-0/other", "dt=1/data-1.parquet", "schema/schema-1", "tag/tag-a"),
        ):
            for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion"):
                found = job.decide(action, f"{TABLE}/{key}", context)
                assert found == function.decide(action, f"{TABLE}/{key}", context), (action, key)
    anew, tag = {"s3:if-none-match": "*"}, f"{TABLE}/tag/tag-rollback-to-as-latest-1-x"
    assert (function.decide("s3:PutObject", tag, anew), job.decide("s3:PutObject", tag, anew)) == ("allowed", "denied")
    for name in ("data-1.parquet", "of-this-table-1.zstd.parquet"):  # by the option `data-file.prefix`
        data = f"{TABLE}/dt=1/bucket-0/{name}"
        assert (function.decide("s3:PutObject", data, anew), job.decide("s3:PutObject", data, anew)) == (
            "denied",
            "allowed",
        )
        assert [job.decide("s3:PutObject", data, each) for each in ({}, {"s3:if-match": "etag"})] == ["denied"] * 2
    for name in ("lease.json", "state.json", "reports/r1.json", "scans/t/s/result.json"):
        assert job.decide("s3:PutObject", f"{CONTROL}/{name}") == "allowed"


def test_no_other_function_can_commit() -> None:
    """A snapshot needs manifests, which nobody else may write."""
    stack = render(SPARK)
    of = {name: role_of(stack, name) for name in (*FUNCTIONS, "SparkJobs")} | {name: role(stack, name) for name in JOBS}
    key = f"{TABLE}/manifest/manifest-list-a-1"
    found = [name for name, it in of.items() if it.decide("s3:PutObject", key, {"s3:if-none-match": "*"}) == "allowed"]
    assert found == ["Committer", "SparkCommitterRole"]


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_change_no_table(roles: dict[str, Role], name: str) -> None:
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectTagging"):
        for key in (
            "snapshot/EARLIEST",
            "snapshot/snapshot-1",
            "dt=1/bucket-0/data-1.parquet",
            "consumer/consumer-a",
            "tag/tag-a",
        ):
            assert roles[name].decide(action, f"{TABLE}/{key}") == "not allowed", (action, key)


@pytest.mark.parametrize(
    ("name", "decision"),
    [
        *(("OnSnapshotWritten", "not allowed"), ("Sweep", "not allowed"), ("OnDemand", "allowed")),
        ("TagSchedule", "not allowed"),
        *(("Expire", "allowed"), ("Committer", "allowed"), ("OrphanScan", "allowed"), ("OrphanWorker", "not allowed")),
    ],
)
def test_only_some_write_control(roles: dict[str, Role], name: str, decision: str) -> None:
    assert roles[name].decide("s3:PutObject", f"{CONTROL}/plans/1/header.json") == decision


@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_one_function_deletes_old_documents(roles: dict[str, Role], name: str) -> None:
    """And no function a lease, a state, or the record of an erasure."""
    old = ("plans/p1/header.json", "reports/r1.json", "ledger/dt=2020-01-01/r1/00001-intent.ndjson.gz", "cache.bin")
    elsewhere = [CONTROL.replace("/tables/", f"/{place}/") + "/s1/x" for place in ("scans", "names")]
    of = roles[name]
    for key in (*(f"{CONTROL}/{each}" for each in old), *elsewhere):
        assert (of.decide("s3:DeleteObject", key) == "allowed") == (name == "ExecuteBatch"), key
        assert of.decide("s3:DeleteObjectVersion", key) != "allowed"
    for each in ("lease.json", "state.json", "orphan_scan.json", "erasures/e1/00001.json"):
        assert of.decide("s3:DeleteObject", f"{CONTROL}/{each}") != "allowed", each
    assert of.decide("s3:DeleteObject", CONTROL.replace("/tables/orders", "/spark-jobs.json")) != "allowed"


def test_a_worker_writes_what_tasks_find_and_nothing_else(roles: dict[str, Role]) -> None:
    """The most hands, and what they read anybody wrote; leases, plans and ledgers are none of their business."""
    area, scans = CONTROL, CONTROL.replace("/tables/", "/scans/")
    worker = roles["OrphanWorker"]
    names = CONTROL.replace("/tables/", "/names/")
    for key in (f"{scans}/s1/tasks/list-0", f"{names}/s1.decode-0", f"{area}/plans/p1/actions-match-0.ndjson.gz"):
        assert worker.decide("s3:PutObject", key) == "allowed", key
    for name in ("lease.json", "state.json", "plans/p1/header.json", "plans/p1/end.json", "reports/r1.json"):
        assert worker.decide("s3:PutObject", f"{area}/{name}") == "not allowed", name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_leaves_the_named_prefixes(roles: dict[str, Role], name: str) -> None:
    for action, resource in (
        ("s3:GetObject", "arn:aws:s3:::lake/warehouse2/sales.db/orders/snapshot/snapshot-1"),
        ("s3:GetObject", "arn:aws:s3:::lake/elsewhere/secret"),
        ("s3:DeleteObject", "arn:aws:s3:::lake/warehouse2/sales.db/orders/snapshot/snapshot-1"),
        ("s3:GetObject", "arn:aws:s3:::other/warehouse/sales.db/orders/snapshot/snapshot-1"),
        ("s3:DeleteObject", "arn:aws:s3:::other/warehouse/sales.db/orders/snapshot/snapshot-1"),
        ("s3:ListBucket", "arn:aws:s3:::other"),
        ("s3:GetObject", "arn:aws:s3:::control/elsewhere"),
        ("s3:DeleteObject", f"{CONTROL}/lease.json"),
        ("s3:DeleteObjectVersion", f"{TABLE}/snapshot/snapshot-1"),
        ("s3:GetObjectVersion", f"{TABLE}/snapshot/snapshot-1"),
        ("s3:PutBucketNotification", "arn:aws:s3:::lake"),
        ("s3:DeleteBucket", "arn:aws:s3:::lake"),
        ("iam:PassRole", "arn:aws:iam::123456789012:role/OperatorRole"),
        ("sts:AssumeRole", "arn:aws:iam::123456789012:role/OperatorRole"),
        ("sqs:PurgeQueue", "arn:aws:sqs:us-east-1:123456789012:lakesweep-commits"),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:other"),
    ):
        assert roles[name].decide(action, resource) != "allowed", (action, resource)


def test_without_artifacts_there_is_no_spark() -> None:
    """Not one resource, and not one word in an environment or a policy."""
    stack = render()
    assert [name for name in stack.resources if "Spark" in name] == []
    assert "emr-serverless" not in json.dumps(stack.resources)
    assert "SPARK" not in json.dumps({name: stack.environment(name) for name in FUNCTIONS})
    assert render(SPARK).resources.keys() > stack.resources.keys()


@pytest.mark.parametrize("name", JOBS)
def test_jobs_read_tables_artifacts_and_inventory(name: str) -> None:
    of = role(render(SPARK), name)
    for action, resource in (
        ("s3:GetObject", f"{TABLE}/snapshot/snapshot-1"),
        ("s3:ListBucket", "arn:aws:s3:::lake"),
        ("s3:GetObject", f"{CONTROL}/scans/1/live-0.parquet"),
        ("s3:PutObject", f"{CONTROL}/scans/1/live-0.parquet"),
        ("s3:GetObject", "arn:aws:s3:::artifacts/lakesweep/1/archive.tar.gz"),
        ("s3:GetObject", "arn:aws:s3:::inventory/lake/orders/2026-11-20T01-00Z/manifest.json"),
        (
            "logs:PutLogEvents",
            "arn:aws:logs:us-east-1:123456789012:log-group:/aws/emr-serverless/lakesweep:log-stream:x",
        ),
    ):
        assert of.decide(action, resource) == "allowed", (action, resource)
    for action, resource in (
        ("s3:PutObject", "arn:aws:s3:::artifacts/lakesweep/1/archive.tar.gz"),
        ("s3:GetObject", "arn:aws:s3:::artifacts/elsewhere"),
        ("s3:DeleteObject", f"{CONTROL}/lease.json"),
        ("s3:GetObject", "arn:aws:s3:::lake/elsewhere/secret"),
        ("s3:DeleteObject", "arn:aws:s3:::lake/elsewhere/secret"),
        ("emr-serverless:StartJobRun", "arn:aws:emr-serverless:us-east-1:123456789012:/applications/1"),
        ("iam:PassRole", "arn:aws:iam::123456789012:role/SparkExecutorRole"),
        ("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-execute"),
    ):
        assert of.decide(action, resource) != "allowed", (action, resource)


def test_the_job_that_plans_cannot_delete() -> None:
    """It is denied, and not only not allowed."""
    of = role(render(SPARK), "SparkPlannerRole")
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
        for key in (f"{TABLE}/dt=1/bucket-0/data-1.parquet", f"{CONTROL}/lease.json", "arn:aws:s3:::other/x"):
            assert of.decide(action, key) == "denied"
    for key in (f"{TABLE}/snapshot/EARLIEST", f"{TABLE}/dt=1/bucket-0/data-1.parquet"):
        assert of.decide("s3:PutObject", key) == "denied"


def test_the_job_that_executes_deletes_as_execute_batch_does() -> None:
    stack = render(SPARK)
    job, function = role(stack, "SparkExecutorRole"), role_of(stack, "ExecuteBatch")
    for action in ("s3:DeleteObject", "s3:PutObject", "s3:DeleteObjectVersion"):
        for key in ("dt=1/bucket-0/data-1.parquet", "snapshot/EARLIEST", "schema/schema-0", "snapshot/snapshot-1"):
            assert job.decide(action, f"{TABLE}/{key}") == function.decide(action, f"{TABLE}/{key}"), (action, key)
    assert job.decide("s3:DeleteObject", f"{TABLE}/dt=1/bucket-0/data-1.parquet") == "allowed"


def test_only_one_function_starts_jobs_and_only_as_these_roles() -> None:
    stack = render(SPARK)
    application = stack.environment("SparkJobs")["LAKESWEEP_SPARK_APPLICATION"]
    own = f"arn:aws:emr-serverless:us-east-1:123456789012:/applications/{application}"
    passed = {"iam:PassedToService": EMR}
    for name in (*FUNCTIONS, "SparkJobs"):
        of = role_of(stack, name)
        may = "allowed" if name == "SparkJobs" else "not allowed"
        assert of.decide("emr-serverless:StartJobRun", own) == may
        assert of.decide("emr-serverless:GetJobRun", f"{own}/jobruns/1") == may
        for job in JOBS:
            assert of.decide("iam:PassRole", f"arn:aws:iam::123456789012:role/{job}", passed) == may
    of = role_of(stack, "SparkJobs")
    for action, resource, context in (
        ("iam:PassRole", "arn:aws:iam::123456789012:role/SparkExecutorRole", {}),
        (
            "iam:PassRole",
            "arn:aws:iam::123456789012:role/SparkExecutorRole",
            {"iam:PassedToService": "ec2.amazonaws.com"},
        ),
        ("iam:PassRole", "arn:aws:iam::123456789012:role/ExecuteBatchRole", passed),
        ("emr-serverless:StartJobRun", own + "x", {}),
        ("emr-serverless:CancelJobRun", f"{own}/jobruns/1", {}),
        ("s3:GetObject", f"{TABLE}/snapshot/snapshot-1", {}),
        ("s3:DeleteObject", f"{TABLE}/snapshot/snapshot-1", {}),
        ("s3:DeleteObject", f"{CONTROL}/jobs/1.json", {}),
    ):
        assert of.decide(action, resource, context) == "not allowed", (action, resource)


@pytest.mark.parametrize("place", ["control/lakesweep/artifacts/1", "lake/warehouse/artifacts/1"])
def test_nobody_here_changes_what_jobs_run(place: str) -> None:
    """Wherever it was uploaded to: who writes there runs code as the job that may delete."""
    operator = {"CreateOperatorRole": "true", "OperatorPrincipalArn": "arn:aws:iam::123456789012:role/admin"}
    stack = render({**SPARK, **operator, "SparkArtifacts": f"s3://{place}"})
    roles = {name: role_of(stack, name) for name in (*FUNCTIONS, "SparkJobs")}
    roles |= {name: role(stack, name) for name in (*JOBS, "OperatorRole")}
    for name, of in roles.items():
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert of.decide(action, f"arn:aws:s3:::{place}/archive.tar.gz") != "allowed", (name, action)


@pytest.mark.parametrize("name", JOBS)
def test_emr_alone_assumes_the_roles_of_jobs(name: str) -> None:
    """And only for this account."""
    (statement,) = render(SPARK).of_type("AWS::IAM::Role")[name]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": EMR}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_queues_are_sent_to_as_the_environment_says() -> None:
    stack = render(SPARK)
    queues = [queue["QueueName"] for queue in stack.of_type("AWS::SQS::Queue").values()]
    for name in (*FUNCTIONS, "SparkJobs"):
        due = {url.rsplit("/", 1)[1] for key, url in stack.environment(name).items() if key.endswith("_QUEUE")}
        arns = {queue: f"arn:aws:sqs:us-east-1:123456789012:{queue}" for queue in queues}
        may = {each for each in queues if role_of(stack, name).decide("sqs:SendMessage", arns[each]) == "allowed"}
        assert may == due, name


def test_the_operator_takes_deletions_back_and_leaves_schemas(operator: Role) -> None:
    for action, resource in (
        ("s3:DeleteObjectVersion", f"{TABLE}/snapshot/snapshot-1"),
        ("s3:GetObjectVersion", f"{TABLE}/manifest/manifest-1"),
        ("s3:ListBucketVersions", "arn:aws:s3:::lake"),
        ("s3:GetLifecycleConfiguration", "arn:aws:s3:::lake"),
        ("s3:PutObject", f"{TABLE}/snapshot/EARLIEST"),
        ("s3:DeleteObject", f"{TABLE}/changelog/changelog-1"),
        ("s3:PutObject", f"{CONTROL}/lease.json"),
    ):
        assert operator.decide(action, resource) == "allowed", (action, resource)
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"):
        assert operator.decide(action, f"{TABLE}/schema/schema-0") == "denied"
    assert operator.decide("s3:DeleteObjectVersion", "arn:aws:s3:::lake/elsewhere/x") == "not allowed"
    assert operator.decide("s3:DeleteObjectVersion", f"{CONTROL}/lease.json") == "not allowed"


def test_keys_are_used_through_their_services_alone() -> None:
    executor = role_of(render(DEPLOYMENTS["everything"]), "Expire")
    key, through = "arn:aws:kms:us-east-1:123456789012:key/1", {"kms:ViaService": "s3.us-east-1.amazonaws.com"}
    assert executor.decide("kms:Decrypt", key, through) == "allowed"
    assert executor.decide("kms:GenerateDataKey", key, through) == "allowed"
    assert executor.decide("kms:Decrypt", key) == "not allowed"
    assert executor.decide("kms:Decrypt", "arn:aws:kms:us-east-1:123456789012:key/9", through) == "not allowed"
    sweep = role_of(render(DEPLOYMENTS["everything"]), "Sweep")
    assert sweep.decide("kms:GenerateDataKey", key, through) == "not allowed"
    assert role_of(render(), "Expire").decide("kms:Decrypt", key, through) == "not allowed"


def test_the_vpc_is_for_lambda_and_not_for_the_code() -> None:
    executor = role_of(render(DEPLOYMENTS["everything"]), "Expire")
    code = {"lambda:SourceFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:lakesweep-expire"}
    subnet = "arn:aws:ec2:us-east-1:210987654321:subnet/subnet-0a"
    assert executor.decide("ec2:CreateNetworkInterface", subnet) == "allowed"
    assert executor.decide("ec2:CreateNetworkInterface", subnet, code) == "denied"
    assert role_of(render(), "Expire").decide("ec2:CreateNetworkInterface", subnet) == "not allowed"


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_parliament_finds_nothing(deployment: str) -> None:
    stack = render(DEPLOYMENTS[deployment])
    for name in stack.of_type("AWS::IAM::Role"):
        for policy, document in role(stack, name).documents.items():
            findings = findings_of(document)
            # It knows this key for Lambda's own actions alone. Lambda puts it into all that a function asks for ("Using
            # source function ARN to control function access behavior", AWS Lambda Developer Guide).
            found = [str(each) for each in findings if "Unknown condition lambda:SourceFunctionArn" not in each.detail]
            assert found == [], (name, policy)


def test_parliament_finds_an_action_that_does_not_exist() -> None:
    statement = {"Effect": "Allow", "Action": "s3:ListBuckets", "Resource": "*"}
    assert findings_of({"Version": "2012-10-17", "Statement": [statement]})


def test_policies_stay_within_iams_limits() -> None:
    """A policy may have 6 144 characters without spaces, those within a role 10 240: enough for forty long prefixes."""
    prefixes = ",".join(f"lake-of-the-company-{number:02}/warehouse/department-{number:02}.db" for number in range(40))
    buckets = ",".join(f"lake-of-the-company-{number:02}" for number in range(40))
    stack = render(
        DEPLOYMENTS["everything"] | {"TablePrefixes": prefixes, "TableBuckets": buckets, "ControlBucket": "control"}
    )
    for policy in stack.of_type("AWS::IAM::ManagedPolicy").values():
        assert len(json.dumps(policy["PolicyDocument"], separators=(",", ":"))) <= 6144
    for properties in stack.of_type("AWS::IAM::Role").values():
        assert sum(len(json.dumps(each, separators=(",", ":"))) for each in properties.get("Policies", ())) <= 10240


# --- the recorder and the evaluator ----------------------------------------------------------------------------------


@pytest.fixture
def lake() -> Iterator[None]:
    with mock_aws():
        for bucket in ("lake", "control"):
            boto3.client("s3").create_bucket(Bucket=bucket)
        boto3.client("sqs").create_queue(QueueName="lakesweep-execute")
        yield


@pytest.mark.usefixtures("lake")
def test_what_is_asked_of_aws_is_noted() -> None:
    s3, sqs = boto3.client("s3"), boto3.client("sqs")
    url = sqs.get_queue_url(QueueName="lakesweep-execute")["QueueUrl"]
    with recorded() as calls:
        etag = s3.put_object(Bucket="lake", Key="a", Body=b"")["ETag"]
        s3.put_object(Bucket="lake", Key="a", Body=b"", IfMatch=etag)
        s3.list_objects_v2(Bucket="lake", Prefix="p/")
        s3.delete_objects(Bucket="lake", Delete={"Objects": [{"Key": "a"}, {"Key": "b", "VersionId": "1"}]})
        sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "x"}])
        with pytest.raises(s3.exceptions.NoSuchKey):
            s3.get_object(Bucket="lake", Key="missing")
    s3.list_objects_v2(Bucket="lake")
    assert calls == [
        Call("s3:PutObject", "arn:aws:s3:::lake/a"),
        Call("s3:PutObject", "arn:aws:s3:::lake/a"),
        Call("s3:GetObject", "arn:aws:s3:::lake/a"),
        Call("s3:ListBucket", "arn:aws:s3:::lake"),
        Call("s3:DeleteObject", "arn:aws:s3:::lake/a"),
        Call("s3:DeleteObjectVersion", "arn:aws:s3:::lake/b"),
        Call("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-execute"),
        Call("s3:GetObject", "arn:aws:s3:::lake/missing"),
        Call("s3:ListBucket", "arn:aws:s3:::lake"),
    ]
    assert calls[3].context == {"s3:prefix": "p/"}


@pytest.mark.parametrize(
    ("operation", "asked", "action"),
    [
        ("GetObject", {"Key": "k", "VersionId": "1"}, "s3:GetObjectVersion"),
        ("HeadObject", {"Key": "k"}, "s3:GetObject"),
        ("DeleteObject", {"Key": "k", "VersionId": "1"}, "s3:DeleteObjectVersion"),
        ("ListObjectVersions", {}, "s3:ListBucketVersions"),
        ("GetBucketLifecycleConfiguration", {}, "s3:GetLifecycleConfiguration"),
    ],
)
def test_an_operation_needs_its_action(operation: str, asked: dict[str, str], action: str) -> None:
    assert [call.action for call in calls_of("s3", operation, {"Bucket": "lake", **asked})] == [action]


@pytest.mark.parametrize(("service", "operation"), [("s3", "CopyObject"), ("sts", "AssumeRole"), ("sqs", "PurgeQueue")])
def test_an_operation_that_is_not_known_raises(service: str, operation: str) -> None:
    with pytest.raises(NotImplementedError):
        calls_of(service, operation, {"Bucket": "lake"})


def test_a_call_that_is_not_allowed_is_reported(roles: dict[str, Role]) -> None:
    good, bad = Call("s3:GetObject", f"{TABLE}/snapshot/LATEST"), Call("s3:DeleteObject", f"{TABLE}/snapshot/LATEST")
    assert_allowed(roles["Sweep"], [good])
    with pytest.raises(AssertionError, match="s3:DeleteObject"):
        assert_allowed(roles["Sweep"], [good, bad])


def test_a_permission_that_nobody_used_is_reported(roles: dict[str, Role]) -> None:
    queue = "arn:aws:sqs:us-east-1:123456789012:lakesweep-execute"
    calls = [
        Call("s3:GetObject", f"{TABLE}/snapshot/LATEST"),
        Call("s3:ListBucket", "arn:aws:s3:::lake"),
        Call("s3:GetObject", f"{CONTROL}/state.json"),
        Call("s3:ListBucket", "arn:aws:s3:::control"),
        Call("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-scan"),
        Call("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:lakesweep-committer.fifo"),
        Call("sqs:SendMessage", queue),
    ]
    missing = ("WriteControl", "s3:PutObject", "arn:aws:s3:::control/lakesweep/*")
    assert unused_permissions(roles["OnDemand"], calls) == [missing]
    assert unused_permissions(roles["OnDemand"], [*calls, Call("s3:PutObject", f"{CONTROL}/lease.json")]) == []
    assert ("Send", "sqs:SendMessage", queue) in unused_permissions(roles["OnDemand"], calls[:-1])


def test_a_condition_that_is_not_known_raises() -> None:
    stack = render()
    policy = stack.of_type("AWS::IAM::ManagedPolicy")["ReadTables"]["PolicyDocument"]
    policy["Statement"][0]["Condition"] = {"DateGreaterThan": {"aws:CurrentTime": "2030-01-01T00:00:00Z"}}
    with pytest.raises(NotImplementedError, match="DateGreaterThan"):
        role_of(stack, "Sweep").decide("s3:GetObject", f"{TABLE}/snapshot/LATEST")


OUTSIDE = {"ExternalBuckets": "outside", "ExternalRoots": "outside/files,outside/more"}
OUTSIDE_FILE = "dt=1/bucket-0/data-1.parquet"


@pytest.mark.parametrize("name", [*EXECUTORS, "SparkExecutorRole"])
def test_executors_delete_outside_tables_below_external_roots_alone(name: str) -> None:
    stack = render({**SPARK, **OUTSIDE})
    of = role(stack, name) if name in JOBS else role_of(stack, name)
    for root in ("files", "more"):
        assert of.decide("s3:DeleteObject", f"arn:aws:s3:::outside/{root}/{OUTSIDE_FILE}") == "allowed"
        assert of.decide("s3:PutObject", f"arn:aws:s3:::outside/{root}/{OUTSIDE_FILE}") == "denied"
        assert of.decide("s3:PutObject", f"arn:aws:s3:::outside/{root}/snapshot/LATEST") == "not allowed"
        assert of.decide("s3:DeleteObject", f"arn:aws:s3:::outside/{root}/schema/schema-0") == "denied"
    assert of.decide("s3:ListBucket", "arn:aws:s3:::outside") == "allowed", "whether another table lies there is asked"
    for place in ("outside/files2", "outside/elsewhere", "other/files"):
        assert of.decide("s3:DeleteObject", f"arn:aws:s3:::{place}/{OUTSIDE_FILE}") == "not allowed", place


@pytest.mark.parametrize("name", [*PLANNERS, "SparkPlannerRole"])
def test_planners_delete_nothing_outside_tables(name: str) -> None:
    stack = render({**SPARK, **OUTSIDE})
    of = role(stack, name) if name in JOBS else role_of(stack, name)
    assert of.decide("s3:DeleteObject", f"arn:aws:s3:::outside/files/{OUTSIDE_FILE}") != "allowed"


@pytest.mark.parametrize("name", [*FUNCTIONS, *JOBS])
def test_without_external_roots_nobody_touches_other_buckets(name: str) -> None:
    stack = render(SPARK)
    of = role(stack, name) if name in JOBS else role_of(stack, name)
    for action in ("s3:GetObject", "s3:DeleteObject", "s3:PutObject"):
        assert of.decide(action, f"arn:aws:s3:::outside/files/{OUTSIDE_FILE}") != "allowed"
    assert of.decide("s3:ListBucket", "arn:aws:s3:::outside") != "allowed"
