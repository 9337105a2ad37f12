"""A scan on Spark, from the wish to the end: one job run an attempt, whatever comes twice, late or never."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakesweep.aws.emr import SparkJob
from lakesweep.aws.jobs.emr_serverless import EmrServerless
from lakesweep.aws.jobs.steps import SMALL_PLAN_ACTIONS
from lakesweep.aws.scans.result import SCANS, result_name
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import Lease, acquire
from lakesweep.errors import ObjectNotFoundError
from lakesweep.model.safety import JOB_HELD_MS
from tests.functions.deployment import APPLICATION, Answer, Deployment

POLL = {"format_version": 1, "kind": "spark_poll", "hop": 0}


class Scans(Deployment):
    """A deployment, and one scan in it."""

    scan_id = ""

    def ask(self, **words: Any) -> dict[str, Any]:
        arguments = {"engine": "spark", "older_than": "2026-01-01T00:00:00Z", **words.pop("arguments", {})}
        event = {"operation": "remove-orphan-files", "table": self.location(), "arguments": arguments, **words}
        answer = self.invoke("on_demand", event).value
        self.scan_id = answer.get("scan_id", "")
        return answer

    def begin(self, **words: Any) -> list[dict[str, Any]]:
        """Ask, and let the wish arrive; return the message."""
        assert self.ask(**words)["status"] == "queued"
        bodies = self.waiting("spark")
        assert self.send("spark_jobs", *bodies).failed == []
        return bodies

    @property
    def area(self) -> ControlArea:
        return ControlArea(self.control(), self.location())

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.area.read(f"jobs/{self.scan_id}.json").data)
        return document

    def end(self, number: int, state: str = "SUCCESS", details: str = "", seconds: int = 60) -> Any:
        run = self.job_runs[number]
        run.state, run.state_details, run.total_execution_duration_seconds = state, details, seconds
        return run

    def result(self, **words: Any) -> None:
        document = {"status": "planned", "plan_id": "p1", "action_count": SMALL_PLAN_ACTIONS + 1, **words}
        scans = ControlArea(self.control(), self.location(), SCANS)
        scans.put(result_name(self.scan_id), json.dumps(document).encode())

    def event(self, run: Any, **detail: Any) -> dict[str, Any]:
        return {
            "version": "0",
            "detail-type": "EMR Serverless Job Run State Change",
            "source": "aws.emr-serverless",
            "detail": {
                "jobRunId": run.id,
                "jobRunName": run.name,
                "applicationId": APPLICATION,
                "state": run.state,
                **detail,
            },
        }

    def hear(self, number: int, **detail: Any) -> Answer:
        answer = self.send("spark_jobs", self.event(self.job_runs[number], **detail))
        assert answer.failed == [], answer.text
        return answer

    @property
    def open(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads(self.control().read("spark-jobs.json").data)["jobs"]
            return found
        except ObjectNotFoundError:
            return {}


def test_a_plan_that_somebody_asks_for() -> None:
    """Nothing is started by the function that is asked; the next one starts one run, and its end is the scan's."""
    scans = Scans()
    answer = scans.ask()
    assert (answer["queued"], answer["refusal"], scans.job_runs) == (True, None, [])
    assert answer["job"].endswith(f"/jobs/{scans.scan_id}.json")
    scans.send("spark_jobs", *scans.waiting("spark"))
    (run,) = scans.job_runs
    assert run.execution_role_arn.endswith("role/planner")
    assert run.client_token == f"{scans.scan_id}-plan-1"
    assert scans.document["job_run_id"] == run.id
    assert scans.open == {scans.scan_id: scans.location()}
    scans.result()
    scans.end(0)
    scans.hear(0)
    assert (scans.document["state"], scans.document["plan_id"]) == ("planned", "p1")
    assert scans.open == {}
    assert len(scans.job_runs) == 1


def test_a_large_plan_is_carried_out_by_another_job() -> None:
    """With the role that may delete, and only after the first has ended."""
    scans = Scans()
    scans.begin(execute=True, arguments={"objects": 10**9})
    scans.result()
    scans.end(0)
    scans.hear(0)
    execution = scans.job_runs[1]
    assert execution.execution_role_arn.endswith("role/executor")
    assert execution.job_driver["sparkSubmit"]["entryPointArguments"][:2] == [scans.location(), "p1"]
    assert "maxExecutors=32" in execution.job_driver["sparkSubmit"]["sparkSubmitParameters"]
    scans.end(1)
    scans.hear(1)
    assert scans.document["state"] == "executed"
    assert [each["kind"] for each in scans.document["ended"]] == ["plan", "execute"]
    assert scans.open == {}


def test_a_small_plan_needs_no_spark() -> None:
    """It goes to the function that executes plans."""
    scans = Scans()
    scans.begin(execute=True)
    scans.result(action_count=5)
    scans.end(0)
    scans.hear(0)
    (work,) = scans.waiting("execute")
    assert (work["plan_id"], work["manual"], work["table"]) == ("p1", True, scans.location())
    assert scans.document["state"] == "handed_over"
    assert len(scans.job_runs) == 1


def test_a_plan_to_be_confirmed_waits_and_is_confirmed() -> None:
    """Until whoever asked names it again; then Spark carries it out."""
    scans = Scans()
    scans.begin(execute=True)
    scans.result(needs_confirmation=True)
    scans.end(0)
    scans.hear(0)
    assert (scans.document["state"], scans.document["code"]) == ("planned", "confirmation_needed")
    message = {
        "format_version": 1,
        "kind": "spark",
        "hop": 0,
        "table": scans.location(),
        "branch": "main",
        "scan_id": "again",
        "arguments": {},
        "execute": True,
        "plan_id": "p1",
        "confirm": True,
    }
    scans.send("spark_jobs", message)
    run = scans.job_runs[1]
    assert run.job_driver["sparkSubmit"]["entryPointArguments"][-2:] == ["--confirm", "p1"]
    assert run.client_token == "again-execute-1"


def test_everything_twice_is_once() -> None:
    """The wish, the event, the look; and an event of an attempt that is over."""
    scans = Scans()
    bodies = scans.begin(execute=True)
    scans.send("spark_jobs", *bodies, *bodies)
    assert len(scans.job_runs) == 1
    scans.end(0, "FAILED", "ExitCode: 1.")
    for _ in range(3):
        scans.hear(0)
    scans.send("spark_jobs", POLL, POLL)
    assert [run.client_token[-1] for run in scans.job_runs] == ["1", "2"]
    scans.hear(0, state="SUCCESS")  # a lie, or a late one
    assert len(scans.job_runs) == 2
    scans.result()
    scans.end(1)
    for _ in range(2):
        scans.hear(1)
        scans.hear(0)
    scans.send("spark_jobs", *bodies, POLL)
    assert len(scans.job_runs) == 3
    scans.end(2)
    for number in (2, 1, 0, 2):
        scans.hear(number)
    scans.send("spark_jobs", *bodies, POLL)
    assert (len(scans.job_runs), scans.document["state"]) == (3, "executed")
    assert scans.waiting("execute") == []


def test_without_events() -> None:
    """The look every ten minutes finds what was lost."""
    scans = Scans()
    scans.begin(execute=True)
    scans.send("spark_jobs", POLL)
    assert scans.document["state"] == "running"
    scans.result()
    scans.end(0)
    scans.send("spark_jobs", POLL)
    scans.end(1)
    scans.send("spark_jobs", POLL)
    assert scans.document["state"] == "executed"
    assert scans.open == {}


def test_a_function_that_died_after_the_start() -> None:
    """The document does not know the run; the same token gives EMR the chance to know it again."""
    scans = Scans()
    scans.begin()
    document = scans.document
    scans.area.put(f"jobs/{scans.scan_id}.json", json.dumps({**document, "job_run_id": None}).encode())
    scans.send("spark_jobs", POLL)
    first, second = scans.job_runs  # moto knows no tokens
    assert first.client_token == second.client_token
    assert first.job_driver == second.job_driver


def test_three_attempts_and_an_alarm() -> None:
    """Each under a token of its own, the same scan id, and then the metric that has an alarm."""
    scans = Scans()
    scans.begin()
    for number in range(3):
        scans.end(number, "FAILED", "ExitCode: 137.")
        answer = scans.hear(number)
    assert len(scans.job_runs) == 3
    assert {run.job_driver["sparkSubmit"]["entryPointArguments"][7] for run in scans.job_runs} == {scans.scan_id}
    assert answer.metrics["SparkJobsFailed"] == 1
    assert (scans.document["state"], scans.document["why"]) == ("failed", "ExitCode: 137.")
    assert scans.open == {}


def test_a_refusal_is_not_tried_again() -> None:
    """The same words get the same answer."""
    scans = Scans()
    scans.begin(execute=True)
    scans.result(status="refused", refusal={"code": "unreadable_root", "message": "snapshot 5 does not decode"})
    scans.end(0, "FAILED", "ExitCode: 3.")
    answer = scans.hear(0)
    assert answer.metrics["RunsRefused"] == 1
    assert (scans.document["code"], scans.document["why"]) == ("unreadable_root", "snapshot 5 does not decode")
    assert len(scans.job_runs) == 1


def test_a_lease_that_is_held_is_asked_for_later() -> None:
    """Not at once: the next look starts the second attempt."""
    scans = Scans()
    scans.begin(execute=True)
    scans.result()
    scans.end(0)
    scans.hear(0)
    scans.end(1, "FAILED", "ExitCode: 5.")
    scans.hear(1)
    assert len(scans.job_runs) == 2
    scans.send("spark_jobs", POLL)
    assert scans.job_runs[2].client_token.endswith("execute-2")


def held(scans: Scans) -> Lease:
    """Let another maintainer hold the table."""
    return acquire(scans.area, "another")


def test_no_job_is_started_while_others_have_the_lease() -> None:
    """It would find the same. The looks go on, and the first that finds it free starts the job."""
    scans = Scans()
    scans.begin(execute=True)
    lease = held(scans)
    scans.result()
    scans.end(0)
    scans.hear(0)
    scans.send("spark_jobs", POLL)
    assert (len(scans.job_runs), scans.document["state"]) == (1, "running")
    lease.release(ended=True)
    scans.send("spark_jobs", POLL)
    assert scans.job_runs[1].client_token.endswith("execute-1")


def test_a_lease_that_others_have_for_hours_ends_it() -> None:
    """Somebody hears of it."""
    scans = Scans()
    scans.begin(execute=True)
    held(scans)
    scans.result()
    scans.end(0)
    scans.hear(0)
    long_ago = {**scans.document, "updated_ms": scans.document["updated_ms"] - JOB_HELD_MS - 2000}
    scans.area.put(f"jobs/{scans.scan_id}.json", json.dumps(long_ago).encode())
    answer = scans.send("spark_jobs", POLL)
    assert (scans.document["state"], scans.document["code"]) == ("failed", "lease_held")
    assert answer.metrics["SparkJobsFailed"] == 1
    assert len(scans.job_runs) == 1


def test_a_damaged_state_is_begun_anew() -> None:
    """The next attempt plans under another id, and its result is what counts."""
    scans = Scans()
    scans.begin(execute=True)
    scans.result(status="refused", refusal={"code": "damaged", "message": "a part is cut off"})
    scans.end(0, "FAILED", "ExitCode: 1.")
    scans.hear(0)
    words = scans.job_runs[1].job_driver["sparkSubmit"]["entryPointArguments"]
    state_id = words[words.index("--scan-id") + 1]
    assert state_id == f"{scans.scan_id}-2"
    document = {"status": "planned", "plan_id": "p2", "action_count": 5}
    ControlArea(scans.control(), scans.location(), SCANS).put(result_name(state_id), json.dumps(document).encode())
    scans.end(1)
    scans.hear(1)
    assert (scans.document["state"], scans.document["plan_id"]) == ("handed_over", "p2")


def test_a_damaged_table_is_counted_once_whatever_becomes_of_the_plan() -> None:
    """A plan that waits for somebody hides no damage, and attempts to carry a plan out tell of none."""
    scans = Scans()
    for waits, counted in ((True, [1]), (False, [1, None])):
        scans.begin(execute=True)
        scans.result(status="damaged", needs_confirmation=waits)
        first = len(scans.job_runs) - 1
        scans.end(first, "FAILED", "Job failed. ExitCode: 4.")
        metrics = [scans.hear(first).metrics]
        if not waits:
            scans.end(first + 1, "FAILED", "Job failed. ExitCode: 1.")
            metrics.append(scans.hear(first + 1).metrics)
        assert [each.get("RunsDamaged") for each in metrics] == counted
    assert scans.document["attempt"] == 2


def test_one_scan_that_cannot_be_looked_at_keeps_no_other_from_it() -> None:
    """A document that is damaged is told of, and the rest goes on."""
    scans = Scans()
    scans.begin()
    damaged = scans.scan_id
    scans.begin()
    scans.area.put(f"jobs/{damaged}.json", b"{")
    scans.result()
    scans.end(1)
    answer = scans.send("spark_jobs", POLL)
    assert answer.failed == []
    assert answer.metrics["RunsFailed"] == 1
    assert scans.document["state"] == "planned"
    assert set(scans.open) == {damaged}


def test_other_peoples_jobs() -> None:
    """Of another application, of another name, or about a scan that nobody asked for."""
    scans = Scans()
    scans.begin()
    run = scans.job_runs[0]
    for detail in (
        {"applicationId": "00fother"},
        {"jobRunName": "nightly"},
        {"jobRunName": SparkJob("plan", "s3://lake/other/t", scans.scan_id, 1).name},
        {"jobRunName": SparkJob("plan", scans.location(), "nobody", 1).name},
    ):
        answer = scans.send("spark_jobs", scans.event(run, **detail))
        assert answer.metrics["EventsIgnored"] == 1
    strange = {**scans.event(run), "detail-type": "EMR Serverless Job Run Retry"}
    assert scans.send("spark_jobs", strange).failed == ["m0"]
    assert scans.send("spark_jobs", {**POLL, "kind": "sweep", "cursor": None}).failed == ["m0"]


def test_a_foreign_table_starts_nothing() -> None:
    """Not below the prefixes of the deployment."""
    scans = Scans()
    (body,) = scans.begin()
    answer = scans.send("spark_jobs", {**body, "table": "s3://other/t", "scan_id": "x"})
    assert answer.metrics["EventsRejected"] == 1
    assert len(scans.job_runs) == 1


@pytest.mark.parametrize("scan_id", ["", "../x", "a b", "x" * 41, "-a", 5])
def test_a_scan_id_that_is_none(scan_id: object) -> None:
    """It becomes a part of keys."""
    scans = Scans()
    (body,) = scans.begin()
    assert scans.send("spark_jobs", {**body, "scan_id": scan_id}).failed == ["m0"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"parallelism": 8}, "bad_argument"),
        ({"objects": "many"}, "bad_argument"),
        ({"objects": -1}, "bad_argument"),
        ({"inventory": "/tmp/x"}, "bad_argument"),
        ({"older_than": "yesterday"}, None),
        ({"retain_max": 1}, "unknown_argument"),
    ],
)
def test_words_that_mean_nothing_are_refused_at_once(arguments: dict[str, object], code: str | None) -> None:
    """Not hours later, by a job."""
    scans = Scans()
    answer = scans.ask(arguments=arguments)
    assert answer["status"] == "refused"
    assert code is None or answer["refusal"]["code"] == code
    assert scans.waiting("spark") == []


def test_a_branch_is_refused() -> None:
    """A scan looks at all of them, and its plan is main's: handed over as another branch's, it would be refused."""
    scans = Scans()
    assert scans.ask(branch="b1", execute=True)["refusal"]["code"] == "bad_argument"
    assert scans.waiting("spark") == []
    assert scans.ask(branch="main")["status"] == "queued"


def test_a_result_that_is_damaged_is_none() -> None:
    """The next attempt writes another one, so this ends."""
    scans = Scans()
    scans.begin()
    scans.result()
    folder = ControlArea(scans.control(), scans.location(), SCANS)
    folder.put(result_name(scans.scan_id), b'{"status": 5}')
    scans.end(0)
    scans.hear(0)
    assert scans.document["attempt"] == 2
    scans.result()
    scans.end(1)
    scans.hear(1)
    assert scans.document["state"] == "planned"


def test_a_list_of_a_later_version_is_left_alone() -> None:
    """What it has besides would be lost."""
    scans = Scans()
    later = b'{"format_version": 2, "jobs": {}, "more": 1}'
    scans.control().put("spark-jobs.json", later)
    scans.ask()
    assert scans.send("spark_jobs", *scans.waiting("spark")).failed == ["m0"]
    assert scans.control().read("spark-jobs.json").data == later
    assert scans.job_runs == []


def test_a_deployment_without_spark_or_that_observes() -> None:
    """Says so."""
    assert Scans(extra={"LAKESWEEP_SPARK_QUEUE": ""}).ask()["refusal"]["code"] == "no_spark"
    assert Scans(mode="observe").ask(execute=True)["refusal"]["code"] == "observed"
    assert Scans(mode="observe").ask()["status"] == "queued"


def plan_message(scans: Scans, **words: Any) -> dict[str, Any]:
    """Return the wish that a stored plan is carried out, as `on_demand` sends it."""
    message = {"format_version": 1, "kind": "spark", "hop": 0, "table": scans.location(), "branch": "main"}
    scans.scan_id = "again"
    return {**message, "scan_id": "again", "arguments": {}, "execute": True, "plan_id": "p1", "confirm": False, **words}


def test_a_mode_that_has_changed_starts_no_execution() -> None:
    """Neither of a plan that somebody named, nor of the next attempt at one."""
    scans = Scans(mode="observe")
    scans.send("spark_jobs", plan_message(scans))
    assert scans.job_runs == []
    assert (scans.document["state"], scans.document["code"]) == ("planned", "observed")
    assert scans.open == {}
    begun = Scans()
    begun.send("spark_jobs", plan_message(begun))
    begun.end(0, "FAILED", "ExitCode: 1.")
    begun.mode = "observe"
    begun._modules.clear()
    begun.hear(0)
    assert len(begun.job_runs) == 1
    assert (begun.document["state"], begun.document["code"]) == ("planned", "observed")
    assert begun.open == {}


def test_prefixes_that_have_changed_start_nothing() -> None:
    """The table is another deployment's by now."""
    scans = Scans()
    scans.begin()
    scans.end(0, "FAILED", "ExitCode: 1.")
    scans.extra = {"LAKESWEEP_TABLES": f"{scans.bucket}/elsewhere"}
    scans._modules.clear()
    scans.hear(0)
    assert len(scans.job_runs) == 1
    assert (scans.document["state"], scans.document["code"]) == ("refused", "foreign_table")
    assert scans.open == {}


class Refusing:
    """EMR, answering some operations with an error. It has to be there before the function asks anything."""

    def __init__(self, scans: Scans, **errors: str) -> None:
        self._real: Any = None
        self._errors = errors
        self.tokens: list[str] = []
        scans.load("spark_jobs").emr._given = self

    def __getattr__(self, operation: str) -> Any:
        def ask(**words: Any) -> Any:
            if operation == "start_job_run":
                self.tokens.append(words["clientToken"])
            if operation in self._errors:
                raise ClientError({"Error": {"Code": self._errors[operation], "Message": "no"}}, operation)
            self._real = self._real or EmrServerless()._client
            return getattr(self._real, operation)(**words)

        return ask


@pytest.mark.parametrize("code", ["ValidationException", "ConflictException", "ResourceNotFoundException"])
def test_a_job_that_emr_does_not_start_is_an_attempt(code: str) -> None:
    """Also when a token is known with other arguments, since a deployment came between: the next one is another."""
    scans = Scans()
    emr = Refusing(scans, start_job_run=code)
    scans.begin()
    assert (scans.document["state"], scans.document["attempt"]) == ("running", 2)
    assert scans.document["ended"][0]["state"] == "NOT_STARTED"
    answers = [scans.send("spark_jobs", POLL) for _ in range(4)]
    assert [token[-1] for token in emr.tokens] == ["1", "2", "3"]
    assert scans.document["state"] == "failed"
    assert code in scans.document["why"]
    assert [answer.metrics.get("SparkJobsFailed") for answer in answers] == [None, 1, None, None]
    assert scans.open == {}


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDeniedException", "InternalServerException"])
def test_an_emr_that_does_not_answer_is_asked_again(code: str) -> None:
    """Nobody knows whether the job runs, so it is asked for under the same token."""
    scans = Scans()
    emr = Refusing(scans, start_job_run=code)
    scans.ask()
    assert scans.send("spark_jobs", *scans.waiting("spark")).failed == ["m0"]
    emr._errors.clear()
    scans.send("spark_jobs", POLL)
    assert len(set(emr.tokens)) == 1
    assert len(scans.job_runs) == 1


def test_a_job_run_that_emr_does_not_know_has_failed() -> None:
    """Its application is gone: nobody will ever tell how it ended."""
    scans = Scans()
    Refusing(scans, get_job_run="ResourceNotFoundException")
    scans.begin()
    for _ in range(5):
        answer = scans.send("spark_jobs", POLL)
        assert "RunsFailed" not in answer.metrics
    assert scans.document["state"] == "failed"
    assert scans.open == {}


class Rows(Scans):
    """A deployment, and one deletion of rows in it."""

    def ask(self, **words: Any) -> dict[str, Any]:
        arguments = {"where_file": "s3://ops/forget.sql", "catalog_type": "filesystem", **words.pop("arguments", {})}
        event = {"operation": "delete-rows", "table": self.location(), "arguments": arguments, **words}
        answer = self.invoke("on_demand", event).value
        self.scan_id = answer.get("scan_id", "")
        return answer


def test_rows_are_deleted_by_one_job() -> None:
    """The request, the document and the job name the file with the condition, and the result has no value of it."""
    rows = Rows()
    answer = rows.ask(execute=True)
    assert (answer["status"], answer["run_id"], answer["operation"]) == ("queued", rows.scan_id, "delete-rows")
    assert answer["report"].endswith(f"/reports/{rows.scan_id}.json")
    assert answer["result"].endswith(f"/{rows.scan_id}/result.json")
    assert rows.send("spark_jobs", *rows.waiting("spark")).failed == []
    (run,) = rows.job_runs
    assert run.execution_role_arn.endswith("role/committer")
    words = run.job_driver["sparkSubmit"]["entryPointArguments"]
    assert words[0] == rows.location()
    assert words[words.index("--run-id") + 1] == rows.scan_id
    assert words[words.index("--where-file") + 1] == "s3://ops/forget.sql"
    assert words[-1] == "--execute" and "--where" not in words
    assert (rows.document["kind"], rows.document["state"]) == ("run", "running")
    rows.result(status="done", plan_id=None, action_count=0)
    rows.end(0)
    rows.hear(0)
    assert (rows.document["state"], rows.open, len(rows.job_runs)) == ("executed", {}, 1)


def test_a_dry_run_of_a_deletion_of_rows_changes_no_table() -> None:
    rows = Rows()
    rows.begin()
    (run,) = rows.job_runs
    assert run.execution_role_arn.endswith("role/planner")
    assert "--execute" not in run.job_driver["sparkSubmit"]["entryPointArguments"]
    rows.result(status="planned", plan_id=None, action_count=0)
    rows.end(0)
    rows.hear(0)
    assert (rows.document["state"], rows.document["why"]) == ("planned", None)


def test_a_job_that_dies_is_started_again() -> None:
    """With the same id, under which it commits once."""
    rows = Rows()
    rows.begin(execute=True)
    rows.end(0, "FAILED", "Job failed. ExitCode: 137.")
    rows.hear(0)
    first, second = (run.job_driver["sparkSubmit"]["entryPointArguments"] for run in rows.job_runs)
    assert first == second
    rows.result(status="refused", plan_id=None, refusal={"code": "primary_key_table", "message": "it has keys"})
    rows.end(1, "FAILED", "Job failed. ExitCode: 3.")
    rows.hear(1)
    assert (rows.document["state"], rows.document["code"]) == ("refused", "primary_key_table")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ({"where": "id = 'secret'", "where_file": None}, "condition_in_request", "expected where_file"),
        ({"where": "id = 'secret'"}, "condition_in_request", "expected where_file"),
        ({"where_file": None}, "bad_argument", "found none"),
        ({"where_file": "forget.sql"}, "bad_argument", "expected s3://bucket/key"),
        ({"where_file": "s3://ops/"}, "bad_argument", "expected s3://bucket/key"),
        ({"show_rows": True}, "bad_argument", "rows would come into the job's log"),
        ({"engine": "local"}, "bad_argument", "expected spark"),
        ({"confirm": "perhaps"}, "bad_argument", "expected true or false"),
        ({"catalog_type": "iceberg"}, "bad_argument", "expected one of"),
        ({"wher": "x"}, "unknown_argument", "no argument 'wher'"),
    ],
)
def test_a_deletion_of_rows_that_is_refused_at_once(arguments: dict[str, Any], code: str, sentence: str) -> None:
    rows = Rows()
    answer = rows.ask(arguments=arguments, execute=True)
    assert (answer["status"], answer["queued"], answer["refusal"]["code"]) == ("refused", False, code)
    assert sentence in answer["refusal"]["message"] and "secret" not in json.dumps(answer)
    assert rows.waiting("spark") == []


def test_a_condition_may_be_kept_on_purpose() -> None:
    rows = Rows()
    rows.begin(arguments={"where": "id = 17", "where_file": None, "keep_condition": True})
    words = rows.job_runs[0].job_driver["sparkSubmit"]["entryPointArguments"]
    assert words[words.index("--where") + 1] == "id = 17" and "--keep-condition" in words


def test_a_deployment_that_only_observes_deletes_no_rows() -> None:
    rows = Rows(mode="observe")
    assert rows.ask(execute=True)["refusal"]["code"] == "observed"
    assert rows.ask()["status"] == "queued"


def test_a_message_to_the_function_that_commits_deletes_no_rows() -> None:
    """It has nothing that reads rows."""
    rows = Rows()
    message = {"format_version": 1, "kind": "commit", "operation": "delete-rows", "table": rows.location()}
    message |= {"branch": "main", "arguments": {"where": "true"}, "manual": True, "run_id": "r1", "hop": 0}
    assert len(rows.send("committer", message).failed) == 1
