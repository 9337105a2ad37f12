"""Processes that make tags, at one gate."""

import json
from pathlib import Path

from lakesweep.storage.local.store import LocalStore
from tests.support.racing import Racers
from tests.support.reader import all_roots, read_root
from tests.unit.cli.command_line import write_table

ROUNDS = 3


def test_of_many_makers_of_one_name_one_makes_it(tmp_path: Path) -> None:
    """Each wants another snapshot, and what is there in the end is the one of the process that says so."""
    with Racers(tmp_path / "racers") as racers:
        for number in range(ROUNDS):
            table, control = tmp_path / f"t{number}", tmp_path / f"c{number}"
            write_table(table, commits=8)
            words = ["create-tag", str(table), "now", "--control", str(control), "--json", "--execute"]
            ended = racers.race([[*words, "--snapshot", str(snapshot_id)] for snapshot_id in range(1, 9)])
            assert sorted(finish.exit_code for finish in ended) == [0] + [3] * 7
            assert {f.document["refusal"]["code"] for f in ended if f.exit_code} == {"tag_exists"}
            (winner,) = [place + 1 for place, finish in enumerate(ended) if finish.exit_code == 0]
            assert json.loads((table / "tag" / "tag-now").read_text())["id"] == winner


def test_makers_and_an_expiry(tmp_path: Path) -> None:
    """Each tag that was made reads, and what was not made is not there."""
    with Racers(tmp_path / "racers") as racers:
        for number in range(ROUNDS):
            table, control = tmp_path / f"t{number}", tmp_path / f"c{number}"
            write_table(table, commits=8)
            where = [str(table), "--control", str(control), "--json", "--execute"]
            tags = [["create-tag", *where[:1], f"n{i}", *where[1:], "--snapshot", str(i)] for i in range(1, 7)]
            expiry = ["expire-snapshots", *where, "--retain-max", "1", "--retain-min", "1"]
            *made, expired = racers.race([*tags, expiry])
            assert expired.exit_code == 0, expired.messages
            store = LocalStore(str(table))
            roots = all_roots(store)
            for place, finish in enumerate(made):
                assert (f"tag/tag-n{place + 1}" in roots) == (finish.exit_code == 0), finish.messages
            for root in roots:
                read_root(store, root)
