"""A table of numbered rows, calls of `erase`, and a search of every byte for the value of one row."""

import gzip
import io
import json
import re
from collections.abc import Mapping
from typing import Any

import fastavro

from lakesweep.model.commits.erasure import ErasureReport
from lakesweep.model.report import RunReport
from lakesweep.operations.erasure.proof import proof_of
from tests.support.faulty_store import Switch
from tests.support.row_world import RowWorld

CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
PERSON = 70707
MARK = f"v{PERSON}"
"""The value of the person's row in another column than that of the condition."""
WHERE = f"id = {PERSON}"
DAY_MS = 86_400_000


class Erasing(RowWorld):
    """The person's row is in two files of snapshots 1 and 2, and snapshot 3 adds another row."""

    def __init__(self, *, options: Mapping[str, str] | None = None, **table: Any) -> None:
        retention = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"}
        super().__init__(options={**retention, **(options or {})}, **table)
        self.append(1, PERSON, 2)
        self.append(PERSON, 3)
        self.append(4, dt="e")

    def erase(self, switch: Switch | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
        """Run `erase` in a process of its own."""
        given = {"where": WHERE, **CATALOG, **arguments}
        given = {name: value for name, value in given.items() if value is not None}
        return self.maintainer(switch).run("erase", execute=execute, **given)

    def finish(self, erasure: str, *, execute: bool = True, where: str | None = None) -> RunReport:
        """Run `erase --finish`."""
        return self.erase(finish=erasure, execute=execute, where=where)

    def proof(self, erasure: str) -> dict[str, Any]:
        """Return the proof of an erasure; it has no value of the row, and none of the condition."""
        found = proof_of(self.maintainer().table, erasure)
        assert str(PERSON) not in json.dumps(found)
        return found

    def later(self, days: int = 1) -> None:
        """Let time go by, and a writer commit."""
        self.now_ms += days * DAY_MS
        self.append(5, dt="e")
        self.now_ms += DAY_MS

    def of(self, dt: str) -> list[str]:
        """Return the live data files of a partition."""
        return [name for name in self.know() if self.files[name].partition == (dt,)]

    def marked(self) -> set[str]:
        """Return the objects of the table and the control location that have the value, however they are packed."""
        stores = {"": self.store, "control/": self.control}
        return {
            f"{prefix}{entry.key}"
            for prefix, store in stores.items()
            for entry in store.list("")
            if MARK.encode() in _unpacked(entry.key, store.read(entry.key).data)
        }

    def showing(self) -> set[int]:
        """Return the snapshots that need a data file with the row, whether a vector hides it or not."""
        marked = {key.rpartition("/")[2] for key in self.marked()}
        return {each for each in self.ids() if marked & set(self.live(each))}


def found(report: RunReport) -> ErasureReport:
    """Return what a report says of an erasure."""
    assert isinstance(report.commits, ErasureReport), report
    return report.commits


def erasure_of(report: RunReport) -> str:
    """Return the id of the record."""
    erasure = found(report).erasure
    assert erasure is not None, report
    return erasure


def there(report: RunReport) -> set[int]:
    """Return the snapshots that still have the rows."""
    words = [each.words for each in found(report).places if (each.kind, each.state) == ("snapshot", "there")]
    ranges = re.findall(r"snapshots? (\d+)(?: to (\d+))?", " ".join(words))
    return {number for first, last in ranges for number in range(int(first), int(last or first) + 1)}


def _unpacked(key: str, body: bytes) -> bytes:
    if key.endswith(".parquet"):
        from pyarrow import parquet

        return body + repr(parquet.read_table(io.BytesIO(body)).to_pylist()).encode()
    if key.startswith("manifest/"):
        return body + repr(list(fastavro.reader(io.BytesIO(body)))).encode()
    return gzip.decompress(body) if key.endswith(".gz") else body
