"""Keys that plans are sealed with, from a file and from KMS."""

import os
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from moto import mock_aws

from lakesweep.api.opening import plan_keys
from lakesweep.aws.plan_key import kms_keys
from lakesweep.control.seal import SecretKeys
from lakesweep.errors import StorageError, UsageError

DIGEST = b"d" * 32


@pytest.fixture
def arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = botocore.session.get_session().create_client("kms", region_name="us-east-1")
        key = client.create_key(KeyUsage="GENERATE_VERIFY_MAC", KeySpec="HMAC_256")
        yield str(key["KeyMetadata"]["Arn"])


def test_a_seal_of_kms_is_known_and_no_other(arn: str) -> None:
    keys = kms_keys(arn, "PlanKey")
    seal = keys.seal(DIGEST)
    assert keys.accepts(DIGEST, seal)
    assert not keys.accepts(b"e" * 32, seal)
    assert not keys.accepts(DIGEST, "x")
    assert not keys.accepts(DIGEST, SecretKeys((b"k" * 32,)).seal(DIGEST))


def test_a_key_that_kms_does_not_know_is_an_error_and_no_answer(arn: str) -> None:
    unknown = f"{arn[:-1]}{'0' if arn[-1] != '0' else '1'}"
    with pytest.raises(StorageError, match="plan key"):
        kms_keys(unknown, "PlanKey").seal(DIGEST)


@pytest.mark.parametrize("text", ["", "x", "arn:aws:s3:::bucket", "arn:aws:kms:us-east-1:1:alias/x"])
def test_what_is_no_key_of_kms_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        kms_keys(text, "PlanKey")
    assert (caught.value.code, caught.value.exit_code) == ("bad_plan_key", 2)


def test_a_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_keys() is None
    file = tmp_path / "keys"
    monkeypatch.setenv("LAKESWEEP_PLAN_KEY_FILE", str(file))
    with pytest.raises(UsageError, match="expected a file"):
        plan_keys()
    for text in (b"", b"\n", b"short\n", b"k" * 32 + b"\nshort\n"):
        file.write_bytes(text)
        with pytest.raises(UsageError, match="32 bytes"):
            plan_keys()
    file.write_bytes(b"k" * 65_537)
    with pytest.raises(UsageError, match="at most"):
        plan_keys()
    os.mkfifo(tmp_path / "pipe")
    for other in (str(tmp_path / "pipe"), "/dev/zero"):
        monkeypatch.setenv("LAKESWEEP_PLAN_KEY_FILE", other)
        with pytest.raises(UsageError, match="found something else"):
            plan_keys()
    monkeypatch.setenv("LAKESWEEP_PLAN_KEY_FILE", str(file))
    file.write_bytes(b"a" * 32 + b"\n" + b"b" * 40 + b"\n")
    keys = plan_keys()
    assert keys is not None
    assert keys.seal(DIGEST) == SecretKeys((b"a" * 32,)).seal(DIGEST)
    assert keys.accepts(DIGEST, SecretKeys((b"b" * 40,)).seal(DIGEST))
    assert not keys.accepts(DIGEST, SecretKeys((b"c" * 32,)).seal(DIGEST))
    monkeypatch.setenv("LAKESWEEP_PLAN_KEY", "arn")
    with pytest.raises(UsageError, match="both"):
        plan_keys()
