"""Bad input: one sentence, exit code 2 or 3, no traceback, nothing deleted, not a byte of the table changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.core import set_initial_no_auth_action_count

from lakesweep.control.area import ControlArea
from lakesweep.errors import AccessDeniedError
from lakesweep.storage.local.store import LocalStore
from tests.support.mocked_aws import mocked_aws
from tests.unit.cli.command_line import KEYS, Answer, call, contents, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "orders", options=RULES)
    return tmp_path / "orders"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def check_refused(answer: Answer, code: str, exit_code: int = 3) -> None:
    """Hold a refused maintenance command against the contract."""
    assert answer.exit_code == exit_code
    assert tuple(answer.document) == KEYS
    assert (answer.document["status"], answer.document["executed"]) == ("refused", False)
    assert answer.document["refusal"]["code"] == code
    assert answer.sentences == [f"lakesweep: {answer.document['refusal']['message']}"]
    assert answer.document["requests"]["delete"] == 0


def refuse(folder: Path, control: Path, code: str, *argv: object, exit_code: int = 3) -> Answer:
    """Run an expiry that must be refused, with and without --execute, and hold the table against what it was."""
    before = contents(folder)
    for more in ([], ["--execute"]):
        answer = call("expire-snapshots", folder, "--control", control, "--json", *argv, *more)
        check_refused(answer, code, exit_code)
    assert contents(folder) == before
    return answer


def rewrite(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_not_a_table(tmp_path: Path, control: Path) -> None:
    """A folder of other files."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.jpg").write_bytes(b"cat")
    refuse(tmp_path / "pictures", control, "not_a_table")


def test_an_empty_folder(tmp_path: Path, control: Path) -> None:
    """An empty folder is no table without snapshots."""
    (tmp_path / "empty").mkdir()
    refuse(tmp_path / "empty", control, "not_a_table")


def test_a_missing_folder(tmp_path: Path, control: Path) -> None:
    """A misspelt path makes no folder."""
    refuse(tmp_path / "missing", control, "not_a_table")
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("type_", ["object-table", "format-table", "something-new"])
def test_tables_of_other_types(folder: Path, control: Path, type_: str) -> None:
    """Tables that keep no snapshots of their own."""
    schema = folder / "schema" / "schema-0"
    rewrite(schema, options={**json.loads(schema.read_text())["options"], "type": type_})
    refuse(folder, control, "unsupported_table_type")
    assert call("show", folder).exit_code == 3


def test_a_snapshot_of_a_later_version(folder: Path, control: Path) -> None:
    """What version 99 means is not known, so nothing goes."""
    rewrite(folder / "snapshot" / "snapshot-6", version=99)
    refuse(folder, control, "unsupported_version")


def test_a_damaged_root(folder: Path, control: Path) -> None:
    """What a root that does not parse needs is not known."""
    (folder / "tag").mkdir()
    (folder / "tag" / "tag-t").write_text("{}")
    refuse(folder, control, "unreadable_root")


def test_a_link_where_roots_live(folder: Path, control: Path) -> None:
    """Roots behind a link could not be protected."""
    (folder / "tag").symlink_to(folder / "snapshot")
    refuse(folder, control, "symbolic_link")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--retain-min", "0"], "retain_min_below_one"),
        (["--retain-min", "-1"], "retain_min_below_one"),
        (["--retain-min", "5", "--retain-max", "4"], "retain_max_below_min"),
        (["--max-deletes", "0"], "limit_below_one"),
        (["--older-than", "2999-01-01T00:00:00Z"], "cutoff_in_future"),
        (["--older-than", "9999999999999999999"], "cutoff_in_future"),
        (["--option", "snapshot.num-retained.min=many"], "bad_option"),
        (["--option", "snapshot.time-retained=1 fortnight"], "bad_option"),
        (["--branch", "no-such"], "no_such_branch"),
        (["--branch", ""], "no_such_branch"),
        (["--branch", "../.."], "no_such_branch"),
    ],
)
def test_rules_that_could_lose_something(folder: Path, control: Path, argv: list[str], code: str) -> None:
    """Bounds and names that are refused."""
    refuse(folder, control, code, *argv)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--retain-min", "one"], "bad_argument"),
        (["--retain-max", "1.5"], "bad_argument"),
        (["--retain-max", ""], "bad_argument"),
        (["--retain-max", "\u0663"], "bad_argument"),
        (["--older-than", "2026-01-31"], "bad_argument"),
        (["--older-than", "2026-01-31T12:00:00"], "bad_argument"),
        (["--older-than", "yesterday"], "bad_argument"),
        (["--older-than", "-5"], "bad_argument"),
        (["--older-than", "1" * 5000], "bad_argument"),
        (["--grace", "5 fortnights"], "bad_argument"),
        (["--grace", "-5 s"], "bad_argument"),
        (["--option", "snapshot.time-retained"], "bad_argument"),
        (["--option", "=1"], "bad_argument"),
        (["--option", "bucket=1"], "unknown_option"),
    ],
)
def test_arguments_that_mean_nothing(folder: Path, control: Path, argv: list[str], code: str) -> None:
    """Malformed values are usage errors."""
    answer = refuse(folder, control, code, *argv, exit_code=2)
    assert "expected" in answer.messages


def test_a_time_without_a_zone_says_what_is_expected(folder: Path, control: Path) -> None:
    """The sentence shows how a time is written."""
    answer = refuse(folder, control, "bad_argument", "--older-than", "2026-01-31T12:00:00", exit_code=2)
    assert "2026-01-31T12:00:00Z" in answer.messages
    assert "without a zone" in answer.messages


def test_control_inside_the_table(folder: Path, tmp_path: Path) -> None:
    """Also through a link, also the table itself."""
    (tmp_path / "link").symlink_to(folder)
    for place in (folder, folder / "control", tmp_path / "link", tmp_path / "link" / "deep" / "control"):
        refuse(folder, place, "control_inside_table")
    before = contents(folder)
    answer = call("expire-snapshots", tmp_path / "link", "--control", folder / "control", "--execute", "--json")
    check_refused(answer, "control_inside_table")
    assert contents(folder) == before


def test_locations_that_mean_nothing(folder: Path, control: Path) -> None:
    """An empty or foreign location is a usage error."""
    for place in ("", " ", "ftp://host/path", "s3://"):
        check_refused(call("expire-snapshots", place, "--control", control, "--json"), "usage", 2)
        check_refused(call("expire-snapshots", folder, "--control", place, "--json"), "usage", 2)


def test_a_store_that_denies(folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No permission is no empty table."""

    def deny(self: LocalStore, prefix: str) -> Iterator[Any]:
        raise AccessDeniedError(f"list {self.location}/{prefix}: permission denied")

    monkeypatch.setattr(LocalStore, "list", deny)
    refuse(folder, control, "access_denied")


def stored_plan(folder: Path, control: Path) -> str:
    plan_id = call("expire-snapshots", folder, "--control", control, "--json").document["plan_id"]
    assert isinstance(plan_id, str)
    return plan_id


def test_plans_that_are_not_there(folder: Path, control: Path) -> None:
    """Misspelt ids, and ids that are paths."""
    before = contents(folder)
    for plan_id in ("20260101T000000Z-00000000", "../../etc/passwd", "a/b", "."):
        answer = call("execute", folder, plan_id, "--control", control, "--json")
        check_refused(answer, "no_such_plan")
        assert answer.document["operation"] == "execute"
    assert contents(folder) == before


def test_a_plan_of_another_table(folder: Path, tmp_path: Path, control: Path) -> None:
    """A plan that was copied to another table's folder is refused."""
    plan_id = stored_plan(folder, control)
    write_table(tmp_path / "other", options=RULES)
    before = contents(tmp_path / "other")
    check_refused(call("execute", tmp_path / "other", plan_id, "--control", control, "--json"), "no_such_plan")
    areas = [ControlArea(LocalStore(str(control)), str(place)) for place in (folder, tmp_path / "other")]
    for name in areas[0].names("plans/"):
        areas[1].put(name, areas[0].read(name).data)
    check_refused(call("execute", tmp_path / "other", plan_id, "--control", control, "--json"), "plan_of_another_table")
    assert contents(tmp_path / "other") == before


def test_a_plan_of_another_branch(folder: Path, control: Path) -> None:
    """A stated branch must be the plan's."""
    before = contents(folder)
    plan_id = stored_plan(folder, control)
    answer = call("execute", folder, plan_id, "--branch", "rt", "--control", control, "--json")
    check_refused(answer, "plan_of_another_branch")
    assert contents(folder) == before


def test_a_plan_past_its_expiry(folder: Path, control: Path) -> None:
    """A plan waits a day, not longer."""
    before = contents(folder)
    plan_id = stored_plan(folder, control)
    (header,) = control.rglob("header.json")
    rewrite(header, expires_ms=json.loads(header.read_text())["created_ms"])
    check_refused(call("execute", folder, plan_id, "--control", control, "--json"), "plan_expired")
    assert contents(folder) == before
    (plan,) = call("plans", folder, "--control", control, "--json").document["plans"]
    assert plan["status"] == "expired"


def test_a_damaged_plan(folder: Path, control: Path) -> None:
    """A plan whose actions do not match its header deletes nothing."""
    before = contents(folder)
    plan_id = stored_plan(folder, control)
    (header,) = control.rglob("header.json")
    rewrite(header, actions=json.loads(header.read_text())["actions"][:-1])
    check_refused(call("execute", folder, plan_id, "--control", control, "--json"), "damaged", 1)
    assert contents(folder) == before


def test_versions_that_are_not_there(folder: Path) -> None:
    """`files` of a version that does not exist."""
    for argv in (["--snapshot", "99"], ["--tag", "none"], ["--timestamp", "1969-12-31T23:59:59Z"]):
        answer = call("files", folder, "--json", *argv)
        assert answer.exit_code == 3
        assert answer.document["error"]["code"] == "no_such_version"
        assert answer.sentences == [f"lakesweep: {answer.document['error']['message']}"]
    answer = call("files", folder, "--json", "--snapshot", "1", "--tag", "none")
    assert (answer.exit_code, answer.document["error"]["code"]) == (2, "usage")


def test_reading_fails_closed(folder: Path) -> None:
    """Files of a version with a damaged manifest list are not listed at all."""
    newest = json.loads((folder / "snapshot" / "snapshot-6").read_text())
    (folder / "manifest" / newest["deltaManifestList"]).write_bytes(b"\0")
    for command in ("files", "show"):
        answer = call(command, folder, "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (3, "unreadable_root")


def test_lists_are_not_empty_by_argument(folder: Path, control: Path) -> None:
    """A limit below 1 is a usage error."""
    for command in ("plans", "runs"):
        assert call(command, folder, "--control", control, "--limit", 0).exit_code == 2


def test_reports_that_are_not_there(folder: Path, control: Path) -> None:
    """Misspelt run ids, and ids that are paths."""
    for run_id in ("20260101T000000Z-00000000", "../state", ""):
        answer = call("report", folder, run_id, "--control", control, "--json")
        assert (answer.exit_code, answer.document["error"]["code"]) == (3, "no_such_run")


class TestS3:
    """The same on S3."""

    @pytest.fixture
    def bucket(self) -> Iterator[Any]:
        with mocked_aws():
            client = boto3.client("s3")
            client.create_bucket(Bucket="lake")
            yield client

    @pytest.fixture
    def table(self, bucket: Any, folder: Path) -> str:
        for path, body in contents(folder).items():
            bucket.put_object(Bucket="lake", Key=f"sales/orders/{path}", Body=body)
        return "s3://lake/sales/orders"

    def objects(self, bucket: Any) -> dict[str, str]:
        return {entry["Key"]: entry["ETag"] for entry in bucket.list_objects_v2(Bucket="lake")["Contents"]}

    def test_without_a_control_location_a_dry_run_is_not_stored(self, bucket: Any, table: str) -> None:
        """The plan is printed, a warning says that it is not kept."""
        before = self.objects(bucket)
        answer = call("expire-snapshots", table, "--json")
        assert (answer.exit_code, answer.document["status"]) == (0, "planned")
        assert "not stored" in answer.messages
        assert self.objects(bucket) == before

    def test_without_a_control_location_nothing_is_executed(self, bucket: Any, table: str) -> None:
        """Two maintainers could not meet."""
        before = self.objects(bucket)
        check_refused(call("expire-snapshots", table, "--json", "--execute"), "control_missing", 2)
        check_refused(call("execute", table, "20260101T000000Z-00000000", "--json"), "control_missing", 2)
        for argv in (["plans", table], ["runs", table], ["report", table, "x"]):
            answer = call(*argv, "--json")
            assert (answer.exit_code, answer.document["error"]["code"]) == (2, "control_missing")
        assert self.objects(bucket) == before

    def test_control_inside_the_table(self, bucket: Any, table: str) -> None:
        """However the two are spelt."""
        before = self.objects(bucket)
        for place in (table, f"{table}/", f"{table}//control", "s3a://lake/sales/orders/control"):
            answer = call("expire-snapshots", table, "--control", place, "--execute", "--json")
            check_refused(answer, "control_inside_table")
        assert self.objects(bucket) == before

    def test_plan_and_execute(self, bucket: Any, table: str) -> None:
        """With a control location in another bucket a plan is stored, listed, executed and reported."""
        bucket.create_bucket(Bucket="ops")
        control = ["--control", "s3://ops/lakesweep"]
        planned = call("expire-snapshots", table, *control, "--json").document
        done = call("execute", table, planned["plan_id"], *control, "--json")
        assert (done.exit_code, done.document["status"]) == (0, "done")
        assert done.document["outcome"]["deleted"] == planned["delete"]["count"]
        (run,) = call("runs", table, *control, "--json").document["runs"]
        stored = call("report", table, run["run_id"], *control, "--json").document["report"]
        printed = done.document
        for document in (stored, printed):
            del document["receipt"]["seconds"]
        assert stored == printed
        assert not any(key.startswith("sales/orders/snapshot/snapshot-1") for key in self.objects(bucket))

    def test_wrong_bucket(self, bucket: Any) -> None:
        """A bucket that does not exist is no empty table."""
        check_refused(call("expire-snapshots", "s3://no-such-bucket/orders", "--json"), "no_such_bucket")

    def test_wrong_prefix(self, bucket: Any, table: str) -> None:
        """A misspelt prefix is no table."""
        check_refused(call("expire-snapshots", f"{table}s", "--json"), "not_a_table")
        assert call("show", "s3://lake", "--json").document["error"]["code"] == "not_a_table"

    def test_no_permission(self, bucket: Any, table: str) -> None:
        """S3 says no: exit code 3, and nothing is concluded from it."""
        before = self.objects(bucket)
        with_control = [table, "--control", "s3://lake/ops", "--json", "--execute"]
        denied = set_initial_no_auth_action_count(0)(lambda: call("expire-snapshots", *with_control))()
        check_refused(denied, "access_denied")
        assert self.objects(bucket) == before
