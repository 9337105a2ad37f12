"""Random tables full of orphans, cleaned by the engine's local cleaner and by Lakesweep.

Ours takes nothing that a root needs: afterwards the engine reads from every root what it read before, and so does the
tests' own reader. What one of the two takes and the other leaves is explained by a rule, or fails.

`LAKESWEEP_ORPHAN_TABLES` says how many tables (else a fifth of `LAKESWEEP_DIFFERENTIAL_COUNT`), and
`LAKESWEEP_DIFFERENTIAL_SEED` which one is first.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from random import Random

import pytest

from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.engine import Engine, EngineError
from tests.differential.files import Listing, listing, remove, restore, save
from tests.differential.history import Space, make_history
from tests.differential.ours import Answer
from tests.differential.planting import DAY_S, POISON, back_date, plant, poison
from tests.differential.truth import Root, read_roots
from tests.differential.writing import apply, external_root
from tests.support.reader import RootNeeds, TableReader, UnreadableRootError
from tests.support.seeds import first_seed

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("LAKESWEEP_ORPHAN_TABLES") or int(os.environ.get("LAKESWEEP_DIFFERENTIAL_COUNT") or 80) // 5)
FIRST_SEED = first_seed("LAKESWEEP_DIFFERENTIAL_SEED")
SPACE = Space(
    name="orphans",
    changelog_producers=True,
    deletion_vectors=True,
    branches=True,
    rollbacks=True,
    external_paths=True,
    data_directories=True,
    decoupled_changelogs=True,
    commits=(3, 9),
)


_ENGINE_TAKES = {
    "<bucket>/_SUCCESS": "marker",
    "<partition>/bucket-x/data-{uuid}-0.parquet": "odd bucket",
    "<empty>/_SUCCESS": "marker",
    "<empty>/data-{uuid}-0.parquet": "no bucket",
    "<empty>/notes.txt": "no bucket",
    "<bucket>/_bloburl_" + "0123456789abcdef" * 4: "link cache",
    "<bucket>/data-{uuid}-0.managed.blob": "pack",
    "<bucket>/index-{uuid}-0": "index among data",
    "<bucket>/<live>-7.index": "index of a live file",
} | dict.fromkeys(
    (
        "<bucket>/.hidden",
        "<bucket>/anything.txt",
        "<bucket>/000001_0.orc",
        "<bucket>/data-by-hand.parquet",
        "<bucket>/data-{uuid}-0.parquet.crc",
        "<bucket>/.data-{uuid}-0.parquet.{uuid}.tmp",
        "manifest/.manifest-{uuid}-0.{uuid}.tmp",
        "manifest/notes.txt",
        "index/notes.txt",
        "statistics/notes.txt",
        "snapshot/notes.txt",
        "changelog/notes.txt",
        "<branch>/snapshot/notes.txt",
    ),
    "unknown name",
)
"""Pattern of a planted file -> the rule by which only the engine takes it."""
_ONLY_OURS_TAKES = dict.fromkeys(
    (
        "schema/.schema-99.{uuid}.tmp",
        "tag/.tag-t.{uuid}.tmp",
        "consumer/.consumer-c.{uuid}.tmp",
        "<branch>/schema/.schema-99.{uuid}.tmp",
        "<branch>/tag/.tag-t.{uuid}.tmp",
    ),
    "temp",
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One table, and what became of it in two hands."""

    before: Listing
    engines: Listing
    refusal: str | None
    ours: Listing
    answer: Answer
    roots: tuple[Root, ...]
    """The engine's truth, before anything was damaged."""
    planted: dict[str, str]
    options: dict[str, str]
    damaged: str | None

    @property
    def only_engine(self) -> frozenset[str]:
        return self.ours.paths - self.engines.paths

    @property
    def only_ours(self) -> frozenset[str]:
        return self.engines.paths - self.ours.paths

    def rule_of(self, path: str) -> str | None:
        """Return what explains a difference."""
        pattern = self.planted.get(path, "")
        if path in self.only_engine:
            if any(path in root.files for root in self.roots):
                return "needed" if self.damaged else None
            if self.answer.exit_code in ours.REFUSED or self.answer.document["findings"]["damaged_roots"]:
                return "damaged root"
            if pattern == "<bucket>/tmp-compacted-changelog-{uuid}" and path.startswith("/"):
                return "staging outside"
            return _ENGINE_TAKES.get(pattern)
        if self.refusal is not None:
            return "the engine stopped"
        twins = {other for other in self.before.paths if PurePosixPath(other).name == PurePosixPath(path).name}
        if twins - self.engines.paths:
            return "twin"
        if "data-file.path-directory" in self.options and "bucket-" in path:
            if path.startswith("/"):
                return "external root"
            if not path.startswith(f"{self.options['data-file.path-directory']}/"):
                return "table beside its data directory"
        return _ONLY_OURS_TAKES.get(pattern)

    def problems(self) -> Iterator[str]:
        """Say everything that is wrong."""
        for root in self.roots:
            for path in sorted((root.files & self.before.paths) - self.ours.paths):
                yield f"LOST: {root} needs {path}"
        for path in sorted(self.only_engine):
            if self.rule_of(path) is None:
                yield f"only the engine takes {path} ({self.planted.get(path)})"
        for path in sorted(self.only_ours):
            if self.rule_of(path) is None:
                yield f"only ours takes {path} ({self.planted.get(path)})"
        gone = self.before.paths - self.ours.paths
        told = {action["path"] for action in self.answer.document.get("actions", ())} if self.answer.document else set()
        for path in sorted(path for path in gone - told if not path.startswith("/")):
            yield f"gone without an action in the document: {path}"
        if self.answer.exit_code in ours.REFUSED and gone:
            yield f"ours refused and took {min(gone)}"
        if self.damaged is None and self.answer.exit_code != 0:
            yield f"ours ended with {self.answer.exit_code}: {self.answer.messages}"


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + COUNT))
def test_orphans_go_and_nothing_else(
    engine: Engine, record_property: Callable[[str, object], None], tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    history = make_history(seed, SPACE)
    table = f"d.orphans{seed}"
    location, saved = engine.location(table), tmp_path / "saved"
    started = time.monotonic()
    apply(engine, table, history.steps)
    roots = read_roots(engine, table)
    create = history.steps[0].arguments
    planted = plant(location, create["partition_keys"], random)
    damaged = None
    if random.random() < 0.15:
        damaged = poison(location, random.choice(POISON))
    elif random.random() < 0.2:
        damaged = _damage(location, roots, random)
    young = frozenset(path for path in planted if random.random() < 0.1)
    back_date(location, young)
    before, needs = listing(location), _read(location)
    save(location, saved)
    older_than_ms = int((time.time() - DAY_S) * 1000) - 60_000

    refusal = None
    try:
        engine("orphans", table=table, older_than_ms=older_than_ms, quiet=True)
    except EngineError as error:
        refusal = error.error
    engines = listing(location)
    restore(saved, location)

    argv = ["remove-orphan-files", str(location), "--json", "--execute", "--control", str(tmp_path / "control")]
    argv += ["--older-than", str(older_than_ms)]
    if external_root(location).exists():
        argv += ["--owned-external", external_root(location).as_uri()]
    answer = ours.run(argv)
    evidence = Evidence(before, engines, refusal, listing(location), answer, roots, planted, create["options"], damaged)
    problems = list(evidence.problems())
    if young - evidence.ours.paths:
        problems.append(f"young, and gone: {sorted(young - evidence.ours.paths)[0]}")
    after = _read(location)
    problems += [f"NOT READ ALIKE: {root}" for root in needs if after.get(root) != needs[root]]
    if damaged is None:
        problems += [
            f"READS DIFFERENTLY: {root} gave {root.reads}, gives {other.reads}"
            for root, other in zip(roots, read_roots(engine, table), strict=True)
            if (root.path, root.reads, root.files) != (other.path, other.reads, other.files)
        ]
    differences = Counter(
        rule for path in evidence.only_engine | evidence.only_ours if (rule := evidence.rule_of(path)) is not None
    )
    record_property(
        "orphans",
        {
            "seed": seed,
            "problems": len(problems),
            "files": len(before.files),
            "planted": len(planted),
            "engine": len(before.paths - engines.paths),
            "ours": len(before.paths - evidence.ours.paths),
            "stopped": int(refusal is not None),
            "refused": int(answer.exit_code in ours.REFUSED),
            "rules": dict(differences),
            "seconds": time.monotonic() - started,
        },
    )
    assert not problems, "\n".join([f"seed {seed}, damaged {damaged}, engine {refusal}:", *problems[:25]])
    remove(location)
    shutil.rmtree(saved)


def _read(location: Path) -> dict[str, RootNeeds]:
    """Read every root that can be read with the tests' own reader."""
    external = external_root(location)
    reader = TableReader(LocalStore(location), {external.as_uri(): LocalStore(external)} if external.exists() else {})
    found = {}
    for root in reader.roots():
        try:
            found[root] = reader.read(root)
        except (UnreadableRootError, AssertionError, ValueError, KeyError):
            pass
    return found


def _damage(location: Path, roots: tuple[Root, ...], random: Random) -> str | None:
    """Take a file away that some root needs, or cut it off."""
    names = ("manifest-list-", "manifest-", "index-manifest-", "data-")
    start = random.choice(names)
    found = sorted(
        {
            path
            for root in roots
            for path in root.files
            if PurePosixPath(path).name.startswith(start) and not path.startswith("/") and (location / path).exists()
        }
    )
    if not found:
        return None
    path = location / random.choice(found)
    if random.random() < 0.3:
        path.write_bytes(path.read_bytes()[:-7])
    else:
        path.unlink()
    return path.relative_to(location).as_posix()


def test_one_foreign_name_stops_the_engine(engine: Engine, tmp_path: Path) -> None:
    """Each of them by itself; only what could be a tag stops ours, too."""
    table = "d.poisoned"
    columns = [["id", "INT"], ["v", "STRING"]]
    engine("create", table=table, columns=columns, primary_keys=[], partition_keys=[], options={"bucket": "-1"})
    engine("write", table=table, n=3)
    location = engine.location(table)
    older_than_ms = int((time.time() - DAY_S) * 1000) - 60_000
    stopped = {}
    for pattern in POISON:
        before = listing(location).paths
        orphan = location / "manifest" / "manifest-00000000-0000-0000-0000-000000000000-0"
        orphan.write_bytes(b"x")
        path = location / poison(location, pattern)
        back_date(location)
        with pytest.raises(EngineError):
            engine("orphans", table=table, older_than_ms=older_than_ms, quiet=True)
        assert listing(location).paths >= before | {orphan.relative_to(location).as_posix()}, pattern
        argv = ["remove-orphan-files", str(location), "--json", "--execute", "--control", str(tmp_path / "control")]
        answer = ours.run([*argv, "--older-than", str(older_than_ms)])
        stopped[pattern] = answer.exit_code in ours.REFUSED
        assert orphan.exists() == stopped[pattern], (pattern, answer)
        path.unlink(missing_ok=True)
        shutil.rmtree(location / "branch", ignore_errors=True)
    assert [pattern for pattern, is_stopped in stopped.items() if is_stopped] == ["tag/tag-zz.tmp"]
    remove(location)
