"""What requests, storage and workers cost.

Prices are AWS's list prices in US dollars, us-east-1, of `PRICES_DATE`, without free tiers, discounts and taxes. They
are the prices of `docs/prices.json`, which states the source of each. The package does not contain that file, so a test
compares the two.
"""

from collections.abc import Mapping
from types import MappingProxyType

PRICES_DATE = "2026-11-21"
REGION = "us-east-1"
CURRENCY = "USD"

USD: Mapping[str, float] = MappingProxyType(
    {
        "s3_get": 0.0004 / 1000,
        "s3_put_list": 0.005 / 1000,
        "s3_storage": 0.023,
        "lambda_request": 0.20 / 1_000_000,
        "lambda_gb_second": 0.0000133334,
        "sqs_standard": 0.40 / 1_000_000,
        "xray_trace": 5.00 / 1_000_000,
        "emr_vcpu_hour": 0.052624,
        "emr_gb_hour": 0.0057785,
    }
)
"""Price of one unit, by its name in the file. A unit of storage is a GB-month."""
GB = 1 << 30
"""Bytes of the GB that S3 bills. Source: the example of billing in AWS's FAQ of S3."""


def usd_of(units: Mapping[str, float]) -> float:
    """Return the cost of the given units."""
    return sum(count * USD[name] for name, count in units.items())


def request_units(requests: Mapping[str, int]) -> dict[str, float]:
    """Return requests to S3 by kind as units. A deletion costs nothing."""
    return {
        "s3_get": requests.get("get", 0) + requests.get("head", 0),
        "s3_put_list": requests.get("put", 0) + requests.get("list", 0),
    }


def storage_usd(size_bytes: int) -> float:
    """Return what these bytes cost in a month in S3 Standard."""
    return size_bytes / GB * USD["s3_storage"]
