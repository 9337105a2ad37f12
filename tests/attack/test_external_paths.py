"""A schema and manifests that place the table's files outside, where somebody else's lie.

Whoever writes a table writes its schemas: `data-file.external-paths` can name any folder, a manifest any file in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan
from lakesweep.errors import StorageError
from lakesweep.model.paths.stays import Allowance, count_stays
from lakesweep.model.plan import Delete
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.run import execute_stored
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import open_store
from lakesweep.storage.store import Store
from lakesweep.table.fence import Fence, FenceRules
from tests.support.maintenance import assert_roots_readable
from tests.support.table_builder import TableBuilder

RULES = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 ms"}
DECOUPLED = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "1", "changelog.time-retained": "0 ms"}
NAME = "data-11111111-2222-3333-4444-{:012d}-0.parquet"


class Lake:
    """Local folders: a table that lies, another one, a home, a control location and a root that may be allowed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.control = folder / "control"
        self.mine = folder / "wh" / "mine"
        self.other = TableBuilder(LocalStore(str(folder / "wh" / "other")))
        self.other.commit("+A")
        self.other.commit("-A", "+B")
        self.other.tag("keep", snapshot=1)
        home = folder / "home" / ".ssh"
        home.mkdir(parents=True)
        (home / "authorized_keys").write_text("ssh-ed25519 AAAA")
        other = ControlArea(open_store(str(self.control)), str(folder / "wh" / "other"))
        for name in ("lease.json", "plans/p.json", "ledger/r/0.ndjson"):
            other.store.put(other.prefix + name, b"{}")
        (folder / "ext").mkdir()

    def table(self, root: str, path: str, **more: str) -> TableBuilder:
        """Build a table that declares `root`, and whose expiry frees `path`; that is not written."""
        builder = TableBuilder(LocalStore(str(self.mine)), options={**RULES, **more}, externals={root: _Nothing(root)})
        builder.commit("+F", external={"F": path})
        builder.commit("-F", "+G")
        return builder

    def opened(self, *roots: str) -> Table:
        place = str(self.mine)
        return Table(
            ref=TableRef(place, "main"),
            store=open_store(place),
            area=ControlArea(open_store(str(self.control)), place),
            open_store=open_store,
            allowance=Allowance(roots),
        )

    def listing(self) -> dict[str, bytes]:
        """Return all files but those of lying tables, and what the control location has of them."""
        return {
            str(each): each.read_bytes()
            for each in self.folder.rglob("*")
            if each.is_file() and "mine" not in str(each.relative_to(self.folder))
        }


class _Nothing(LocalStore):
    """Takes no file: what the manifest names lies there already, and is not the table's."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return '"0"'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path.resolve())


def victims(lake: Lake) -> Iterator[tuple[str, str]]:
    """Yield roots to declare with a file of somebody else below each."""
    wh, home, control = lake.folder / "wh", lake.folder / "home", lake.control
    for key in ("snapshot/snapshot-2", "snapshot/LATEST", "schema/schema-0", "tag/tag-keep"):
        yield str(wh / "other"), f"{wh / 'other'}/{key}"
        yield str((wh / "other" / key).parent), f"{wh / 'other'}/{key}"
        yield str(wh), f"{wh / 'other'}/{key}"
    (data,) = {each for each in (wh / "other" / "bucket-0").iterdir() if each.name.endswith(lake.other.path("B")[-12:])}
    yield str(wh / "other"), str(data)
    yield str(home), f"{home}/.ssh/authorized_keys"
    yield str(home / ".ssh"), f"{home}/.ssh/authorized_keys"
    for each in sorted(control.rglob("*")):
        if each.is_file() and "mine" not in str(each.relative_to(control)):
            yield str(control), str(each)
            yield str(each.parent), str(each)
    yield "/", f"{home}/.ssh/authorized_keys"


def _changelogs(table: Table) -> RunReport:
    run_operation(table, "expire-snapshots", {"retain_max": 1}, execute=True)
    return run_operation(table, "expire-changelogs", {"delete_all": True}, execute=True)


def _tag(table: Table) -> RunReport:
    run_operation(table, "create-tag", {"tag": "t", "snapshot": 1}, execute=True)
    run_operation(table, "expire-snapshots", {"retain_max": 1}, execute=True)
    return run_operation(table, "delete-tag", {"tag": ["t"]}, execute=True)


OPERATIONS: dict[str, Callable[[Table], RunReport]] = {
    "expire-snapshots": lambda table: run_operation(table, "expire-snapshots", {"retain_max": 1}, execute=True),
    "maintain": lambda table: run_operation(table, "maintain", {}, execute=True),
    "expire-changelogs": _changelogs,
    "delete-tag": _tag,
}


@pytest.mark.parametrize("allowed", ["nothing", "ext", "the root"])
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_nothing_of_somebody_else_goes(lake: Lake, operation: str, allowed: str) -> None:
    """Whatever a schema declares and a manifest names; not even where the operator allows just that root."""
    for number, (root, path) in enumerate(list(victims(lake))):
        lake.mine = lake.folder / "wh" / f"mine-{number}"
        options = DECOUPLED if operation == "expire-changelogs" else {}
        lake.table(root, path, **options)
        before = lake.listing()
        roots = {"nothing": (), "ext": (str(lake.folder / "ext"),), "the root": (root,)}[allowed]
        report = OPERATIONS[operation](lake.opened(*roots))
        after = lake.listing()
        assert before.items() <= after.items(), (root, path, set(before) - set(after))
        assert report.status in ("done", "nothing_to_do"), (root, path, report.refusal)
    assert_roots_readable(lake.other)


def test_the_report_says_which_root_to_allow_and_how(lake: Lake) -> None:
    root = str(lake.folder / "ext")
    path = f"{root}/bucket-0/{NAME.format(1)}"
    lake.table(root, path)
    (lake.folder / "ext" / "bucket-0").mkdir()
    Path(path).write_bytes(b"mine")
    report = run_operation(lake.opened(), "expire-snapshots", {"retain_max": 1}, execute=True)
    assert report.plan is not None
    assert report.plan.header.kept["external_root_not_allowed"] == 1
    (warning,) = report.plan.header.warnings
    assert warning == (
        f"1 file below {root} is kept: no operator allows this root. Allow it with --external-root {root} or "
        "`external_roots` in the fleet policy"
    )
    assert Path(path).exists()


def test_what_the_operator_allows_goes(lake: Lake) -> None:
    root = str(lake.folder / "ext")
    path = f"{root}/bucket-0/{NAME.format(1)}"
    lake.table(root, path)
    (lake.folder / "ext" / "bucket-0").mkdir()
    Path(path).write_bytes(b"mine")
    report = run_operation(lake.opened(root), "expire-snapshots", {"retain_max": 1}, execute=True)
    assert report.status == "done"
    assert not Path(path).exists()


@pytest.mark.parametrize("roots", [(), ("sibling",)])
def test_a_plan_carries_no_permission(lake: Lake, roots: tuple[str, ...]) -> None:
    """Whoever carries it out without the allowance keeps the files, says so, and ends the plan."""
    root = str(lake.folder / "ext")
    path = f"{root}/bucket-0/{NAME.format(1)}"
    lake.table(root, path)
    (lake.folder / "ext" / "bucket-0").mkdir()
    (lake.folder / "sibling").mkdir()
    Path(path).write_bytes(b"mine")
    planned = run_operation(lake.opened(root), "expire-snapshots", {"retain_max": 1}, execute=False).plan
    assert planned is not None
    assert path in {delete.path for delete in planned.deletes}
    table = lake.opened(*(str(lake.folder / each) for each in roots))
    report = execute_stored(table, planned.header.plan_id)
    assert report.status == "done"
    assert report.outcome is not None
    assert report.outcome.kept_by_recheck == 1
    assert any("--external-root" in warning for warning in report.all_warnings())
    assert Path(path).exists()
    again = run_operation(table, "maintain", {}, execute=True)
    assert again.status == "nothing_to_do", "nothing is left that would block it"


def test_a_table_that_appears_after_planning_refuses_the_root(lake: Lake) -> None:
    """The executor looks again."""
    root = str(lake.folder / "ext")
    path = f"{root}/bucket-0/{NAME.format(1)}"
    lake.table(root, path)
    (lake.folder / "ext" / "bucket-0").mkdir()
    Path(path).write_bytes(b"mine")
    table = lake.opened(root)
    planned = run_operation(table, "expire-snapshots", {"retain_max": 1}, execute=False).plan
    assert planned is not None
    (lake.folder / "ext" / "schema").mkdir()
    (lake.folder / "ext" / "schema" / "schema-0").write_bytes(b"{}")
    report = execute_stored(table, planned.header.plan_id)
    assert report.outcome is not None
    assert report.outcome.kept_by_recheck == 1
    assert Path(path).exists()


def test_a_link_below_an_allowed_root_leads_nowhere(lake: Lake) -> None:
    """What a file is reached by is followed to its end before the allowed root is asked."""
    root = lake.folder / "ext"
    (lake.folder / "home" / "bucket-0").mkdir()
    victim = lake.folder / "home" / "bucket-0" / NAME.format(1)
    victim.write_bytes(b"somebody's")
    (root / "in").symlink_to(lake.folder / "home")
    lake.table(f"{root}/in", f"{root}/in/bucket-0/{victim.name}")
    report = run_operation(lake.opened(str(root)), "expire-snapshots", {"retain_max": 1}, execute=True)
    assert report.status == "done"
    assert victim.exists()


def test_a_root_is_no_prefix_of_a_name(lake: Lake) -> None:
    """`/ext` does not allow `/ext2`."""
    root = lake.folder / "ext2"
    (root / "bucket-0").mkdir(parents=True)
    path = root / "bucket-0" / NAME.format(1)
    path.write_bytes(b"somebody's")
    lake.table(str(root), str(path))
    run_operation(lake.opened(str(lake.folder / "ext")), "expire-snapshots", {"retain_max": 1}, execute=True)
    assert path.exists()


def test_a_forged_plan_deletes_nothing_outside(lake: Lake) -> None:
    """The actions of a stored plan are data: whoever carries it out judges each path anew."""
    from lakesweep.execute.deletions.deleting import send
    from lakesweep.runs.table_environment import environment

    root = str(lake.folder / "ext")
    lake.table(root, f"{root}/bucket-0/{NAME.format(1)}")
    table = lake.opened(root)
    planned = run_operation(table, "expire-snapshots", {"retain_max": 1}, execute=False).plan
    assert planned is not None
    assert table.area is not None
    plan = load_plan(table.area, planned.header.plan_id)
    before = lake.listing()
    for _, path in list(victims(lake)):
        for kind in ("data", "extra", "changelog", "index"):
            forged = Delete("data", kind, path, 1, "it says so")
            env = environment(table, table.area, replace(plan, actions=(*plan.actions, forged)))
            assert path in env.stores.stays([(kind, path)])
            with pytest.raises(Exception, match="must not change"):
                send(env.stores, [forged], lambda: None)
    assert lake.listing() == before


def test_of_many_folders_that_cannot_be_looked_at_one_sentence_tells(lake: Lake) -> None:
    """A look that fails keeps the file, however many there are."""
    root = str(lake.folder / "ext")
    rules = FenceRules((root,), (root,), str(lake.control))

    def failing(location: str) -> Store:
        if "bucket-" in location:
            raise StorageError(f"list {location}: no answer")
        return open_store(location)

    fence = Fence(str(lake.mine), rules, failing)
    stays = fence.stays(("data", f"{root}/bucket-{number}/{NAME.format(number)}") for number in range(100))
    assert {stay.code for stay in stays.values()} == {"external_not_checked"}
    (told,) = count_stays(stays.values())
    assert (told.count, "no answer" in str(told)) == (100, True)


def test_each_folder_is_looked_at_once(lake: Lake) -> None:
    root = str(lake.folder / "ext")
    opened: list[str] = []

    def noting(location: str) -> Store:
        opened.append(location)
        return open_store(location)

    fence = Fence(str(lake.mine), FenceRules((root,), (root,), str(lake.control)), noting)
    for _ in range(3):
        assert fence.stays(("data", f"{root}/bucket-{each % 5}/{NAME.format(each)}") for each in range(50)) == {}
    assert len(opened) == len(set(opened)) == 5 + len(Path(root).parts)


def test_a_table_below_an_allowed_root_keeps_all_files_below_that_root(lake: Lake) -> None:
    """Also files beside that table: the root is not apart from all tables, as whoever allowed it thought."""
    root = lake.folder / "ext"
    for name in ("bucket-0", "bucket-1/snapshot"):
        (root / name).mkdir(parents=True)
    (root / "bucket-1" / "snapshot" / "snapshot-1").write_bytes(b"{}")
    files = [("data", f"{root}/bucket-{number}/{NAME.format(number)}") for number in range(2)]
    fence = Fence(str(lake.mine), FenceRules((str(root),), (str(root),), str(lake.control)), open_store)
    stays = fence.stays(files)
    assert {path: stay.code for path, stay in stays.items()} == {path: "external_root_refused" for _, path in files}
