"""What is answered of a place that is no table, and of a store that cannot be reached."""

from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest

from tests.support.mocked_aws import mocked_aws
from tests.support.stub_s3 import Answer, error, stub_s3
from tests.unit.cli.command_line import call, contents, write_table


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))


COMMANDS = ("show", "runs", "plans", "explain", "check", "maintain", "files", "tags", "branches")


def refusal(*argv: object) -> str:
    """Return the sentence of a command that says that there is no table."""
    answer = call(*argv, "--json")
    document = answer.document.get("error") or answer.document["refusal"]
    assert (answer.exit_code, document["code"]) == (3, "not_a_table"), answer.printed
    return str(document["message"])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_without_a_table_says_what_it_is(tmp_path: Path, command: str) -> None:
    warehouse = tmp_path / "lake"
    write_table(warehouse / "sales.db" / "orders")
    write_table(warehouse / "sales.db" / "customers")
    control = () if command in ("show", "files", "tags", "branches") else ("--control", tmp_path / "control")
    if command != "check":  # which takes a database
        database = refusal(command, warehouse / "sales.db", *control)
        assert "it is a database; its tables are customers, orders" in database
    assert "it is a warehouse; its databases are sales.db" in refusal(command, warehouse, *control)
    typo = refusal(command, warehouse / "sales.db" / "order", *control)
    assert f"did you mean {warehouse / 'sales.db' / 'orders'}" in typo
    far = refusal(command, warehouse / "sale.db" / "orders", *control)
    assert f"there is no sale.db in {warehouse}; did you mean {warehouse / 'sales.db'}?" in far


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    assert refusal("show", tmp_path / "orders").endswith("; it is an empty folder")


def test_a_bucket_says_what_it_is(tmp_path: Path) -> None:
    write_table(tmp_path / "orders")
    with mocked_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="lake")
        for path, body in contents(tmp_path / "orders").items():
            client.put_object(Bucket="lake", Key=f"warehouse/sales.db/orders/{path}", Body=body)
        assert "it is a warehouse; its databases are sales.db" in refusal("show", "s3://lake/warehouse")
        assert "it is a folder without tables; in it are warehouse" in refusal("show", "s3://lake")
        typo = refusal("show", "s3://lake/warehouse/sales.db/ordres")
        assert "did you mean s3://lake/warehouse/sales.db/orders?" in typo


@pytest.mark.parametrize("command", ["runs", "plans"])
def test_a_table_without_runs_is_no_error(tmp_path: Path, command: str) -> None:
    write_table(tmp_path / "orders")
    answer = call(command, tmp_path / "orders", "--control", tmp_path / "control", "--json")
    assert (answer.exit_code, answer.document[command]) == (0, [])


DENIED = {
    "denied": error(403, "AccessDenied"),
    "wrong key": error(403, "InvalidAccessKeyId"),
    "wrong secret": error(403, "SignatureDoesNotMatch"),
    "expired": error(400, "ExpiredToken"),
    "region": error(400, "AuthorizationHeaderMalformed"),
}


def out_of_reach(*argv: object, hint: str = "check the credentials") -> None:
    answer = call(*argv)
    assert answer.exit_code == 3, answer.messages
    assert hint in answer.messages
    assert "--region" in answer.messages
    assert "--endpoint-url" in answer.messages


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.parametrize("command", ["show", "maintain"])
def test_what_keeps_a_command_from_its_store_has_one_exit_code(name: str, command: str) -> None:
    answer: Answer = DENIED[name]
    with stub_s3(lambda _: answer) as stub:
        out_of_reach(command, "s3://lake/orders", "--endpoint-url", stub.url, "--region", "us-east-1")


def test_missing_credentials_and_wrong_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ("show", "s3://lake/orders", "--region", "us-east-1", "--endpoint-url")
    out_of_reach(*silent, "http://127.0.0.1:9", hint="check the network, a proxy (HTTPS_PROXY)")
    out_of_reach("show", "s3://lake/orders", "--endpoint-url", "nonsense")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    out_of_reach(*silent, "http://127.0.0.1:8")


def test_a_local_folder_that_is_denied_has_no_hint_about_s3(tmp_path: Path) -> None:
    assert "aws sts" not in call("show", tmp_path / "nothing").messages


NAMES_OF_FOLDERS = ("schema", "snapshot", "manifest", "tag", "branch", "changelog", "consumer", "index", "statistics")


@pytest.mark.parametrize("name", NAMES_OF_FOLDERS)
def test_a_database_with_a_table_that_is_called_as_a_folder_of_tables_is_a_database(tmp_path: Path, name: str) -> None:
    warehouse = tmp_path / "lake"
    database = warehouse / "sales.db"
    write_table(database / "orders")
    write_table(database / name)
    names = sorted(("orders", name))
    for command in ("check", "remove-orphan-files"):
        answer = call(command, database, "--control", tmp_path / "control", "--json")
        assert answer.exit_code == 0, answer.printed
        assert [Path(table["table"]).name for table in answer.document["tables"]] == names
    assert f"it is a database; its tables are {', '.join(names)}" in refusal("show", database)
    assert "it is a warehouse; its databases are sales.db" in refusal("show", warehouse)
    assert call("show", database / name).exit_code == 0
