"""Delete a hundred tags of expired snapshots, which alone hold 100 000 files: requests and peak memory of a process.

    python -m benchmarks.tags [--tags N] [--files N]

Each day adds files, deletes those of the day before, and ends with a tag; other files stay for ever. The snapshots of
all days but the last are gone. No data file exists: S3 answers a deletion of what is not there as any other, and what
is measured is what Lakesweep asks for and keeps in memory. The command is a fresh process, with nothing remembered.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.large_table import Manifest, Writer
from benchmarks.ours import Finished, command_line
from benchmarks.results import Bar, bars_json, bars_table, machine, table, write
from benchmarks.servers import PROJECT, SCRATCH, environment, s3_server
from lakesweep.storage.keys import SINGLE_DELETES

BUCKET = "bench"
TAGS, FILES = 100, 100_000
COLD_MANIFESTS = 4
PEAK_MIB = 512


class Daily(Writer):
    """Writes a table of which each day replaces the files of the day before."""

    def __init__(self, folder: Path, tags: int, files: int) -> None:
        super().__init__(folder, 0.1)
        self._tags = tags
        self._files = files // tags

    def write(self) -> None:
        """Write everything, oldest first."""
        self._schema()
        cold = [
            self._manifest(self._file(f"2025-{month:02}-01") for _ in range(self._files))
            for month in range(1, 1 + COLD_MANIFESTS)
        ]
        before: Manifest | None = None
        for day in range(1, self._tags + 2):
            partition = f"2026-{1 + day // 28:02}-{1 + day % 28:02}"
            added = self._manifest([self._file(partition) for _ in range(self._files)], keep=True)
            base, delta = list(cold), [added]
            if before is not None:
                base.append(before)
                delta.append(self._manifest([{**entry, "_KIND": 1} for entry in before.entries]))
            self._day_document(day, base, delta, is_last=day > self._tags)
            before = added
        self._document("snapshot", "LATEST", str(self._tags + 1))
        self._document("snapshot", "EARLIEST", str(self._tags + 1))

    def _day_document(self, day: int, base: Sequence[Manifest], delta: Sequence[Manifest], *, is_last: bool) -> None:
        text = self._snapshot_text(day, base, delta)
        if is_last:
            self._document("snapshot", f"snapshot-{day}", text)
        else:
            self._document("tag", f"tag-day-{day:03}", text)


def measure(tags: int, files: int) -> tuple[Finished, Finished, str, int]:
    """Return how planning and executing went, what S3 was, and how many manifests there were."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch, s3_server() as s3:
        folder = Path(scratch, "t")
        # In a process of its own: what this one has had in memory would count as its children's peak.
        command = [sys.executable, "-m", "benchmarks.tags", "--tags", str(tags), "--files", str(files)]
        subprocess.run([*command, "--write", str(folder)], check=True, cwd=PROJECT, env=environment())
        s3.client().create_bucket(Bucket=BUCKET)
        s3.upload(folder, BUCKET, "t")
        names = sorted(path.name.removeprefix("tag-") for path in folder.glob("tag/tag-*"))
        manifests = sum(1 for path in folder.glob("manifest/manifest-*") if "-list-" not in path.name)
        where = ["--control", f"s3://{BUCKET}/control", "--endpoint-url", s3.direct]
        planned = command_line(["delete-tag", f"s3://{BUCKET}/t", *names, *where])
        plan_id = str(planned.document["plan_id"])
        done = command_line(["execute", f"s3://{BUCKET}/t", plan_id, "--confirm", plan_id, *where])
        return planned, done, s3.name, manifests


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description="Delete tags of snapshots that are gone.")
    parser.add_argument("--tags", type=int, default=TAGS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--write", metavar="FOLDER", help="write the table there, and do nothing else")
    asked = parser.parse_args()
    if asked.write:
        Daily(Path(asked.write), asked.tags, asked.files).write()
        return
    setting = machine()
    planned, done, server, manifests = measure(asked.tags, asked.files)
    deleted = planned.document["delete"]["by_kind"]
    others = sum(count for kind, count in deleted.items() if kind != "tag")
    # Besides manifests: two lists of each tag and of the snapshot, the tags, the snapshot, the schema, and what is
    # remembered, which is nothing.
    gets = planned.document["requests"]["get"] - 2 * (asked.tags + 1) - asked.tags - 3
    # Few tags go one by one, many in one request, each with its condition.
    of_tags = asked.tags if asked.tags <= SINGLE_DELETES else -(-asked.tags // 1000)
    bulk = -(-others // 1000)
    bulk_asked = done.document["requests"]["delete"] - of_tags
    peak = max(planned.peak_kib, done.peak_kib) // 1024
    bars = [
        Bar("GET of manifests", f"each of {manifests} once", str(gets), gets <= manifests),
        Bar("bulk deletes", f"{bulk} for {others:,} objects", str(bulk_asked), bulk_asked <= bulk),
        Bar("peak MiB", f"at most {PEAK_MIB}", str(peak), peak <= PEAK_MIB),
    ]
    cells = [
        (what, f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}", run.peak_kib // 1024, *run.document["requests"].values())
        for what, run in (("plan", planned), ("execute", done))
    ]
    kinds = planned.document["requests"]
    own = asked.files // asked.tags
    text = (
        f"{asked.tags} tags of snapshots that are gone, each with {own:,} files of its own beside "
        f"{COLD_MANIFESTS * own:,} that all of them share: deleting them takes {others:,} objects. A fresh process "
        "plans it with nothing remembered, another one carries it out. Each tag goes on the condition that it still is "
        "the one that was meant.",
        bars_table(bars),
        table(("", "wall s", "CPU s", "peak MiB", *kinds), cells),
    )
    document = {
        "deleted": deleted,
        "plan": {"wall_s": planned.seconds, "cpu_s": planned.cpu_seconds, "requests": kinds},
        "execute": {"wall_s": done.seconds, "cpu_s": done.cpu_seconds, "requests": done.document["requests"]},
        "peak_mib": peak,
        "bars": bars_json(bars),
    }
    is_whole = (asked.tags, asked.files) == (TAGS, FILES)
    write("tags", "A hundred tags", setting | {"s3_server": server}, document, text, is_whole=is_whole)


if __name__ == "__main__":
    main()
