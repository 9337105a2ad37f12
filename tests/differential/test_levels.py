"""What is compacted of a bucket, beside the Java engine: the same runs, to the same level, merged together alike.

And the order of keys, by which all of this goes.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain, zip_longest
from typing import Any

import pytest

from lakesweep.format.values.data_type import parse_data_type
from lakesweep.model.keyed import KeyedFile, MergeRules
from lakesweep.operations.keyed.rules.jobs import work_of
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.keyed.rules.pick import level_options, pick
from lakesweep.table.reach.keyed_files import key_of
from tests.differential.engine import Engine
from tests.support.binary_row import encode_row
from tests.support.keyed_tree import random_tree
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

TREES = 600


def test_random_trees(engine: Engine) -> None:
    """Some merge, some move files, and in some there is nothing to do."""
    kinds = set()
    for number in range(TREES):
        seed = first_seed("LAKESWEEP_DIFFERENTIAL_SEED") + number
        case = _case(seed)
        ours, theirs = _ours(**case), _theirs(engine, **case)
        assert ours == theirs, f"seed {seed}: {case}"
        kinds |= {each[0] for each in ours["acts"]} or {"nothing"}
    assert kinds == {"merge", "upgrade", "move", "nothing"}


def _case(seed: int) -> dict[str, Any]:
    trigger, levels = 1 + seed % 5, 2 + seed % 6
    options = {"num-sorted-run.compaction-trigger": str(trigger), "target-file-size": "100 b"}
    if seed % 4:
        options["num-levels"] = str(levels)
    if seed % 7 == 0:
        options["sequence.field"] = "v"
    if seed % 11 == 0:
        options["compaction.total-size-threshold"] = "700 b"
    if seed % 11 == 1:
        options["compaction.incremental-size-threshold"] = "700 b"
    if seed % 3:
        options |= {"compaction.max-size-amplification-percent": "150", "compaction.size-ratio": str(seed % 40)}
    has_vectors, full = seed % 2 == 0, seed // 2 % 3 == 0
    files = random_tree(seed, num_levels=levels)
    last = levels_of(files, level_options(options).num_levels).last
    if full and any(file.level != last for file in files):
        # the engine leaves the vectors of large files of the last level, where a full compaction of ours leaves none
        files = [each._replace(file=each.file._replace(vector=None)) for each in files]
    return {"files": files, "options": options, "has_vectors": has_vectors, "full": full}


def _ours(files: list[KeyedFile], options: dict[str, str], *, has_vectors: bool, full: bool) -> dict[str, Any]:
    found = level_options(options)
    sequence = (options["sequence.field"],) if "sequence.field" in options else ()
    levels = levels_of(files, found.num_levels)
    if full and not has_vectors:  # readers of such a table see no vectors
        levels = levels_of([each._replace(file=each.file._replace(vector=None)) for each in files], found.num_levels)
    acts: list[Any] = []
    unit = pick(levels, found, full=full, forces_level_0=has_vectors)
    if unit is not None:
        rules = MergeRules(("id",), has_vectors=has_vectors, sequence=sequence)
        work = work_of(levels, unit, rules, found.small_bytes, max_bytes=1 << 60)
        for job in work.jobs:
            names = [[file.name for file in run] for run in job.runs]
            if not job.is_upgrade:
                acts.append(("merge", job.level, names, job.drops_deletes))
            else:
                (file,) = job.files
                acts.append(("upgrade" if file.level == 0 else "move", job.level, file.name))
        acts += [("move", work.level, file.name) for file in work.moved]
    return {"runs": [[file.name for file in run] for run in levels.runs], "acts": sorted(acts, key=repr)}


def _theirs(
    engine: Engine, files: list[KeyedFile], options: dict[str, str], *, has_vectors: bool, full: bool
) -> dict[str, Any]:
    facts = [
        (
            *(each.name, each.level, each.low[0], each.high[0], each.file.size_bytes, each.file.min_sequence),
            *(each.max_sequence, each.file.created_ms, each.delete_rows, each.file.vector is not None),
        )
        for each in files
    ]
    how = {"full": full, "forced": has_vectors, "vectors": has_vectors}
    answer = engine("levels_compact", files=facts, options=options, **how)
    level_0 = {each.name for each in files if each.level == 0}
    acts: list[Any] = []
    for kind, level, *more in answer["acts"]:
        if kind == "rewrite":
            drops, sections = more
            runs = [list(chain.from_iterable(parts)) for parts in zip_longest(*sections, fillvalue=())]
            acts.append(("merge", level, runs, drops))
        elif more[1] == "CHANGELOG_WITH_REWRITE":
            acts.append(("merge", level, [[more[0]]], True))
        else:
            acts.append(("upgrade" if more[0] in level_0 else "move", level, more[0]))
    return {"runs": answer["runs"], "acts": sorted(acts, key=repr)}


_TYPES = (
    *("BOOLEAN", "TINYINT", "INT", "BIGINT", "DATE", "STRING", "CHAR(9)", "DECIMAL(9, 2)", "DECIMAL(38, 10)"),
    *("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
)
_LETTERS = (
    "a",
    "B",
    "\x01",
    "\x7f",
    "\x80",
    "\u00e9",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
)


def test_the_order_of_keys(engine: Engine) -> None:
    """Random keys of one to three columns, many of them alike."""
    draw = random.Random(first_seed("LAKESWEEP_DIFFERENTIAL_SEED"))
    columns = [[type_] for type_ in _TYPES] + [draw.choices(_TYPES, k=draw.randint(2, 3)) for _ in range(20)]
    for types in columns:
        values = [[_value(draw, type_) for type_ in types] for _ in range(60)]
        rows = [encode_row(types, each) for each in values]
        parsed = [parse_data_type(type_, "a type") for type_ in types]
        keys = [key_of(row, types, parsed, "a key") for row in rows]
        ours = sorted(range(len(keys)), key=keys.__getitem__)
        assert ours == engine("keys_sort", types=types, keys=[row.hex() for row in rows]), types


def _value(draw: random.Random, type_: str) -> Any:
    word = type_.partition("(")[0]
    number = draw.choice((0, 1, -1, draw.randint(-128, 127)))
    large = draw.choice((number, draw.randint(-(10**13), 10**13)))
    match word:
        case "BOOLEAN":
            return number > 0
        case "DATE":
            return date(1970, 1, 1) + timedelta(days=number)
        case "STRING" | "CHAR":
            return "".join(draw.choices(_LETTERS, k=draw.randint(0, 5)))
        case "DECIMAL":
            return Decimal(number if type_ == "DECIMAL(9, 2)" else large * 10**9).scaleb(-2)
        case "TIMESTAMP":
            step = 1000 if type_ == "TIMESTAMP(3)" else 1
            return datetime(1970, 1, 1) + timedelta(microseconds=large * step)
    return large if word == "BIGINT" else number
