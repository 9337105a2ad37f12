"""Receipts as text."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.text import counted, human_bytes


def cost_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Render the receipt of a report in one line; nothing for a local table, or a report of an earlier version."""
    receipt = document.get("receipt")
    count = 0 if receipt is None else sum(receipt["requests"].values())
    if receipt is None or not count:
        return
    is_known = receipt["usd"] is not None
    usd = human_usd(receipt["usd"] if is_known else receipt["requests_usd"])
    machines = "" if is_known else " and machines of unknown cost"
    freed = ""
    if receipt["freed_bytes"]:
        freed = f"; frees {human_bytes(receipt['freed_bytes'])}, {human_usd(receipt['freed_usd_month'])} a month"
    yield f"{'cost':<10} {usd}{machines}: {counted(count, 'request')}, {receipt['seconds']:.1f} s{freed}"


def human_usd(usd: float) -> str:
    """Return an amount with two decimals; if it is below a dollar, with two digits."""
    if usd == 0:
        return "0 USD"
    digits = 2 if usd >= 1 else 1 - math.floor(math.log10(usd))
    return f"{usd:.{digits}f} USD"
