"""What `docs/inventory.md` tells people to do, and the codes that it names."""

import json
import re
from pathlib import Path

from tests.support.s3_server import fresh_bucket, moto_client

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")


def test_the_configuration_is_one() -> None:
    """S3's API takes the configuration as it stands there, and what is read needs no more."""
    policy, configuration = (json.loads(each) for each in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    assert policy["Statement"][0]["Principal"] == {"Service": "s3.amazonaws.com"}
    client, bucket = moto_client(), fresh_bucket()
    client.put_bucket_inventory_configuration(
        Bucket=bucket, Id=configuration["Id"], InventoryConfiguration=configuration
    )
    assert set(configuration["OptionalFields"]) == {"Size", "LastModifiedDate", "ETag"}


def test_every_code_is_named() -> None:
    """Each code of a refusal stands in the table, and no other does."""
    modules = (ROOT / "shared" / "lakesweep" / "table" / "inventory").glob("*.py")
    raised = {
        code
        for module in modules
        for code in re.findall(r'code="(\w+)"', module.read_text(encoding="utf-8"))
        if code != "bad_inventory"
    }
    assert raised == set(re.findall(r"`(inventory_\w+)`", PAGE))
