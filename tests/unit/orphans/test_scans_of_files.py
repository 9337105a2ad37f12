"""What each object is, and what may become of it.

Every file is older than the cutoff, unless a test says otherwise. What a test names as its outcome is what goes.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.operations.orphans.rules.orphans import Sorting
from lakesweep.storage.store import Store, StoredObject
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import Entry, Manifest, encode_manifest, encode_manifest_list
from tests.support.orphan_scene import DAY_MS, FOLDER, HOUR_MS, OrphanScene, unique
from tests.support.reader import assert_all_readable, read_root
from tests.support.table_builder import TableBuilder


def one_commit(*entries: str, **table: object) -> OrphanScene:
    """One snapshot with one file."""
    scene = OrphanScene(**table)
    scene.table.commit(*(entries or ("+A",)))
    return scene


def test_a_file_that_waits_for_its_commit() -> None:
    scene = one_commit()
    scene.age()
    pending = scene.orphan("pending", age_ms=HOUR_MS)
    assert scene.remove() == set()
    assert scene.kept["too_young"] == 1
    scene.age(23 * HOUR_MS)
    assert scene.remove() == set(), "24 hours old to the millisecond"
    scene.age(1)
    assert scene.remove() == {pending}


def test_an_upload_that_took_long() -> None:
    """S3 dates an object from the beginning of its upload: a writer that needs 30 h is given 36."""
    scene = one_commit()
    scene.age()
    scene.table.commit("+L")
    path = scene.table.path("L")
    commit = {key: scene.store.read(key).data for key in scene.listed() if "snapshot-2" in key or "LATEST" in key}
    scene.drop("snapshot/snapshot-2")
    scene.put("snapshot/LATEST", b"1")
    scene.store.set_modified(path, scene.now_ms - 30 * HOUR_MS)
    assert scene.remove(older_than=scene.now_ms - 36 * HOUR_MS, reads=False) == set()
    for key, body in commit.items():
        scene.put(key, body)
    assert_all_readable(scene.table)


def sidecars_of_two_commits() -> OrphanScene:
    """The same data file with another sidecar in each of two snapshots."""
    scene = OrphanScene()
    scene.table.commit("+d", extra={"d": ["index"]})
    name = scene.table.path("d").rpartition("/")[2]
    scene.table.commit("-d", "+d", extra={"d": [f"{name}-1.index"]})
    return scene


def test_two_sidecars_of_one_file() -> None:
    scene = sidecars_of_two_commits()
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert {f"{scene.table.path('d')}{end}" for end in (".index", "-1.index")} <= scene.listed()


@pytest.mark.parametrize("quarantine", [None, "1 h"])
def test_a_stale_sidecar_of_a_live_file(quarantine: str | None) -> None:
    """Its name is one that the writer takes again, so it stays however old it is."""
    scene = sidecars_of_two_commits()
    scene.table.merge_manifests()
    for number in (1, 2):
        scene.table.remove(f"snapshot/snapshot-{number}")
    stale = f"{scene.table.path('d')}.index"
    scene.age()
    for _ in range(3):
        assert stale not in scene.remove(quarantine=quarantine)
        assert scene.kept["live_owner"] == 1
        scene.age()


def test_a_sidecar_without_its_file() -> None:
    scene = one_commit()
    sidecar = scene.orphan("e", "-0.parquet.row")
    scene.age()
    assert scene.remove() == {sidecar}


def test_shares_of_a_changelog_in_another_bucket() -> None:
    scene = one_commit()
    share = f"compacted-changelog-{unique('c')}$0-10-10-5.cc-orc"
    real = f"{FOLDER}compacted-changelog-{unique('c')}$0-10.cc-orc"
    scene.table.commit("+B", changelog=[f"+{share}"], bucket={share: 3})
    scene.drop(f"dt=v00000/bucket-3/{share}")
    scene.put(real)
    scene.age()
    assert scene.remove(reads=False) == set()
    assert real in scene.listed()
    assert real in read_root(scene.store, "snapshot/snapshot-2").paths


def test_a_compacted_changelog_that_nobody_names() -> None:
    scene = one_commit()
    real = scene.put(f"{FOLDER}compacted-changelog-{unique('c')}$0-10.cc-orc")
    elsewhere = scene.put(f"dt=v00000/bucket-3/compacted-changelog-{unique('e')}$0-10.cc-orc")
    temp = scene.put(f"{FOLDER}tmp-compacted-changelog-{unique('t')}")
    scene.age()
    assert scene.remove() == {real, temp}
    assert elsewhere in scene.listed(), "a file of bucket 0 never lies in bucket 3"


def test_a_pack_that_no_manifest_can_name() -> None:
    scene = one_commit()
    packs = {scene.orphan("p", "-0.managed.blob"), scene.orphan("q", "-0.managed.blob", folder="dt=v00000/elsewhere/")}
    scene.age(1000 * DAY_MS)
    assert scene.remove() == set()
    assert packs <= scene.listed()


def test_the_list_of_packs_of_a_file_that_is_gone() -> None:
    scene = one_commit()
    left = scene.orphan("g", "-0.parquet.blobref")
    kept = scene.put(f"{scene.table.path('A')}.blobref")
    scene.age()
    assert scene.remove() == {left}
    assert kept in scene.listed()


def test_an_index_that_a_tag_needs() -> None:
    scene = OrphanScene()
    table = scene.table
    table.commit("+A", index={"i1": {"A": (1,)}})
    table.tag("t")
    table.commit("-A", "+B", index={"i2": {"B": (2,)}})
    table.remove("snapshot/snapshot-1")
    orphan = scene.put(f"index/index-{unique('i')}-3")
    scene.age()
    assert scene.remove() == {orphan}
    assert {"i1", "i2"} <= table.present()


def test_index_files_beside_data_files() -> None:
    scene = OrphanScene(options={"index-file-in-data-file-dir": "true"})
    scene.table.commit("+A", index={"i": {"A": (1,)}})
    assert scene.table.path("i").startswith(FOLDER)
    orphan = scene.put(f"{FOLDER}index-{unique('i')}-9")
    scene.age()
    assert scene.remove() == {orphan}


def test_without_the_option_nobody_writes_an_index_there() -> None:
    scene = one_commit()
    odd = scene.put(f"{FOLDER}index-{unique('i')}-9")
    scene.age()
    assert scene.remove() == set()
    assert odd in scene.findings["kept"]["foreign"]["first"]


def test_statistics_that_later_snapshots_inherit() -> None:
    scene = OrphanScene()
    for number in range(1, 6):
        scene.table.commit(f"+F{number}", statistics="s" if number == 3 else None)
    for number in range(1, 5):
        scene.table.remove(f"snapshot/snapshot-{number}")
    other = scene.put(f"statistics/stat-{unique('s')}-0")
    scene.age()
    gone = scene.remove()
    assert {key for key in gone if not key.startswith("manifest/")} == {other}
    assert "s" in scene.table.present()


def test_a_date_in_the_old_spelling() -> None:
    """Where the file lies and where today's options say that it lies differ; its name counts."""
    scene = OrphanScene(types={"dt": "DATE"})
    scene.table.commit("+A")
    path = scene.table.path("A")
    assert path.startswith("dt=19723/")
    scene.table.alter(options={"partition.legacy-name": "false"})
    orphan = scene.orphan("b", folder="dt=19723/bucket-0/")
    scene.age()
    assert scene.remove(reads=False) == {orphan}
    assert path in scene.listed()


def test_nulls_under_a_default_name_of_long_ago() -> None:
    scene = OrphanScene(options={"partition.default-name": "__OLD__"})
    scene.table.commit("+A", partition=(None,))
    path = scene.table.path("A")
    assert path.startswith("dt=__OLD__/")
    scene.table.alter(options={"partition.default-name": "__NEW__"})
    orphan = scene.orphan("b", folder="dt=__OLD__/bucket-0/")
    scene.age()
    assert scene.remove(reads=False) == {orphan}
    assert path in scene.listed()


OUTSIDE = "memory://outside/ext"
SPREAD = f"{FOLDER}0101/1100/0011/10101010/"


def external_scene() -> tuple[OrphanScene, MemoryStore]:
    """A table with a file inside and one outside."""
    scene = OrphanScene(external=OUTSIDE, options={"data-file.path-directory": "data"})
    scene.table.commit("+A", "+B", external={"A": f"{OUTSIDE}/{SPREAD}data-{unique('A')}-0.parquet"})
    assert scene.external is not None
    return scene, scene.external


@pytest.mark.parametrize("owned", [False, True])
def test_files_four_folders_below_their_bucket(owned: bool) -> None:
    """`data-file.path-directory` for what lies inside, a spread external path for what does not."""
    scene, outside = external_scene()
    inside = scene.orphan("b", folder=f"data/{FOLDER}")
    elsewhere = f"{SPREAD}data-{unique('c')}-0.parquet"
    outside.put(elsewhere, b"orphan")
    unknown = f"{FOLDER}0101/data-{unique('d')}-0.parquet"
    outside.put(unknown, b"no such depth")
    assert scene.table.path("B").startswith(f"data/{FOLDER}")
    scene.age()
    arguments = {"owned_external": [OUTSIDE]} if owned else {}
    assert scene.remove(reads=False, **arguments) == {inside} | ({f"{OUTSIDE}/{elsewhere}"} if owned else set())
    assert_all_readable(scene.table)
    assert unknown in {entry.key for entry in outside.list("")}
    assert scene.findings["external_roots"][0]["owned"] == owned


def test_a_root_that_two_tables_share() -> None:
    """Neither database nor table is part of an external path, so that nobody can tell whose an orphan is."""
    scene, outside = external_scene()
    other = TableBuilder(
        MemoryStore("memory://bucket/db.db/other"), partition_keys=("dt",), externals={OUTSIDE: outside}
    )
    other.commit("+X", external={"X": f"{OUTSIDE}/{FOLDER}data-{unique('X')}-0.parquet"})
    scene.age()
    assert scene.remove() == set()
    assert_all_readable(other)
    (root,) = scene.findings["external_roots"]
    assert (root["location"], root["owned"], root["live"], root["not_referred_to"]) == (OUTSIDE, False, 1, 1)
    assert scene.report is not None
    assert scene.report.plan is not None
    (warning,) = scene.report.plan.header.warnings
    assert OUTSIDE in warning


def test_only_a_declared_root_can_be_owned() -> None:
    scene, _ = external_scene()
    scene.age()
    with pytest.raises(UsageError, match=r"owned_external: expected an external root .* found memory://outside/other"):
        scene.remove(owned_external=["memory://outside/other"])


@pytest.mark.parametrize("document", ["schema/schema-0", "snapshot/snapshot-1"])
@pytest.mark.parametrize("folder", ["", "dt=v00000/"])
def test_an_owned_root_where_another_table_lies(folder: str, document: str) -> None:
    """It was said to hold files of this table alone, and a schema or a snapshot there says otherwise."""
    scene, outside = external_scene()
    mine = f"{FOLDER}data-{unique('c')}-0.parquet"
    outside.put(mine, b"orphan")
    other = f"{folder}{FOLDER if not folder else 'bucket-0/'}data-{unique('X')}-0.parquet"
    outside.put(other, b"live in the other table")
    outside.put(f"{folder}{document}", b"{}")
    scene.age()
    code, sentence = scene.refusal(owned_external=[OUTSIDE])
    assert code == "owned_root_holds_tables"
    assert f"{OUTSIDE}/{folder}{document}" in sentence
    assert {mine, other} <= {entry.key for entry in outside.list("")}
    assert scene.remove() == set(), "unless it is said to be owned, nothing there goes anyway"


def test_what_is_not_owned_is_counted_and_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, outside = external_scene()
    for number in range(5):
        outside.put(f"{FOLDER}data-{unique(str(number))}-0.parquet", b"orphan")
    scene.age()
    monkeypatch.setattr(remove_orphan_files, "list_all", one_by_one)
    most = 0
    add = Sorting.add

    def watched(sorting: Sorting, *of_object: Any) -> None:
        nonlocal most
        add(sorting, *of_object)
        most = max(most, len(sorting.orphans))

    monkeypatch.setattr(Sorting, "add", watched)
    assert scene.remove() == set()
    assert most == 1
    (root,) = scene.findings["external_roots"]
    assert (root["not_referred_to"], root["not_referred_to_bytes"], root["live"], root["other"]) == (5, 30, 1, 0)


def one_by_one(store: Store, prefix: str = "", **_: object) -> Iterator[tuple[StoredObject, ...]]:
    for entry in store.list(prefix):
        yield (entry,)


def test_names_of_another_engine() -> None:
    """A migrated table keeps the names of its files, and a name without a UUID says nothing."""
    scene = one_commit("+000000_0.orc")
    unknown = scene.put(f"{FOLDER}000001_0.orc")
    scene.age()
    assert scene.remove() == set()
    assert scene.findings["kept"]["foreign"] == {"count": 1, "first": [unknown]}
    assert scene.report is not None
    assert scene.report.plan is not None
    assert unknown in scene.report.plan.header.warnings[0]


def test_the_marker_of_a_partition() -> None:
    scene = one_commit()
    markers = {scene.put("dt=other/_SUCCESS"), scene.put("dt=v00000/_SUCCESS")}
    scene.age()
    assert scene.remove() == set()
    assert markers <= scene.listed()


def test_the_marker_of_a_tag_is_no_tag() -> None:
    scene = one_commit()
    marker = scene.put("tag/tag-success-file/x_SUCCESS", b"{}")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert marker in scene.listed()
    assert scene.findings["roots"] == 1


def test_temporary_files_of_documents() -> None:
    scene = one_commit()
    temps = {
        scene.put(f"snapshot/.snapshot-9.{unique('1')}.tmp"),
        scene.put(f"snapshot/snapshot-9{unique('2')}.tmp"),
        scene.put(f"schema/.schema-2.{unique('3')}.tmp"),
    }
    scene.age()
    young = scene.put(f"snapshot/.snapshot-10.{unique('4')}.tmp")
    assert scene.remove() == temps
    assert young in scene.listed()


def test_names_of_python_writers() -> None:
    """A count at the end is what they leave out, and changelogs say so."""
    scene = OrphanScene()
    table = scene.table
    table.commit("+A")
    table.commit("+B", changelog=["+L"])
    path = "snapshot/snapshot-2"
    model = table.model(path)
    ours = {"delta": f"manifest-{unique('d')}", "changelog": f"manifest-{unique('c')}-changelog"}
    lists = {"delta": f"manifest-list-{unique('l')}-1", "changelog": f"manifest-list-{unique('l')}-changelog"}
    document = dict(model.document)
    left = set()
    for which, manifests in (("delta", model.delta), ("changelog", model.changelog)):
        (manifest,) = manifests
        left |= {f"manifest/{manifest.name}", f"manifest/{document[f'{which}ManifestList']}"}
        body = encode_manifest([Entry(entry.sign, entry.file) for entry in manifest.entries])
        scene.put(f"manifest/{ours[which]}", body)
        renamed = Manifest(ours[which], len(body), manifest.entries, manifest.partition_types)
        size = _put_list(scene, lists[which], renamed)
        document |= {f"{which}ManifestList": lists[which], f"{which}ManifestListSize": size}
    scene.put(path, json.dumps(document).encode())
    left |= {
        scene.put(f"manifest/manifest-{unique('x')}"),
        scene.put(f"manifest/manifest-{unique('y')}-changelog"),
        scene.put(f"manifest/manifest-list-{unique('z')}-changelog"),
    }
    scene.age()
    assert scene.remove(reads=False) == left
    assert {f"manifest/{name}" for name in (*ours.values(), *lists.values())} <= scene.listed()


def _put_list(scene: OrphanScene, name: str, manifest: Manifest) -> int:
    body = encode_manifest_list([manifest])
    scene.put(f"manifest/{name}", body)
    return len(body)


@pytest.mark.parametrize("folder", ["x", "dt=v00000", "dt=v00000/bucket-0", "data/nested", "branch/x"])
def test_a_table_in_a_folder_of_this_one(folder: str) -> None:
    """Nothing below it goes, not even what could be of this table; a place like a branch of it is none."""
    scene = one_commit()
    scene.put(f"{folder}/schema/schema-0", scene.store.read("schema/schema-0").data)
    nested = {
        scene.put(f"{folder}/bucket-0/data-{unique('n')}-0.parquet"),
        scene.put(f"{folder}/dt=v00000/bucket-0/data-{unique('m')}-0.parquet"),
        scene.put(f"{folder}/manifest/manifest-{unique('o')}-0"),
        scene.put(f"{folder}/snapshot/.snapshot-1.{unique('p')}.tmp"),
    }
    ours = scene.orphan("b", folder="dt=elsewhere/bucket-0/")
    scene.age()
    assert scene.remove() == {ours}
    assert nested <= scene.listed()


@pytest.mark.parametrize("roots", [False, True])
@pytest.mark.parametrize("type_", ["format-table", "object-table", "lance-table", "iceberg-table"])
def test_tables_without_snapshots_of_their_own(type_: str, roots: bool) -> None:
    """Every file of theirs would look like an orphan. The sentence names the type, whatever else is missing."""
    scene = one_commit()
    scene.table.alter(options={"type": type_})
    scene.orphan("b")
    if not roots:
        scene.drop("snapshot/snapshot-1")
    scene.age()
    code, sentence = scene.refusal()
    assert code == "unsupported_table_type"
    assert f"'{type_}'" in sentence


def test_no_table_at_all() -> None:
    scene = OrphanScene()
    scene.drop("schema/schema-0")
    scene.orphan("b")
    scene.age()
    code, sentence = scene.refusal()
    assert code == "not_a_table"
    assert "expected a Paimon table directory" in sentence


def test_no_such_branch() -> None:
    """A removal is of all branches; the one that is named has to be there all the same."""
    scene = one_commit()
    maintainer = scene.maintainer()
    maintainer.branch = "none"
    report = maintainer.run("remove-orphan-files", execute=False)
    assert report.refusal is not None
    assert report.refusal.code == "no_such_branch"


def test_a_file_that_only_a_deletion_names() -> None:
    scene = OrphanScene()
    table = scene.table
    table.commit("+A", "+B")
    table.commit("-A")
    table.remove("snapshot/snapshot-1")
    scene.age()
    scene.remove()
    assert "A" in table.present()
    table.merge_manifests()
    table.remove("snapshot/snapshot-2")
    scene.age()
    gone = scene.remove()
    assert table.path("A") in gone
    assert table.present() == {"B"}


def test_more_than_half_of_the_table() -> None:
    """Nothing goes until somebody names the plan; then it does."""
    scene = OrphanScene()
    scene.table.commit(manifests=[[f"+F{number}" for number in range(800)]])
    orphans = {scene.orphan(f"o{number}") for number in range(1200)}
    scene.age()
    assert scene.remove(reads=False) == set()
    assert scene.report is not None
    assert scene.report.status == "refused"
    assert scene.report.refusal is not None
    assert scene.report.refusal.code == "confirmation_needed"
    sentence = scene.report.refusal.message
    assert "memory://bucket/db.db/t" in sentence
    assert "deletes 1200 data files, more than half of the table" in sentence
    assert scene.report.plan is not None
    plan_id = scene.report.plan.header.plan_id
    assert f"--confirm {plan_id}" in sentence
    assert scene.maintainer().execute(plan_id).status == "refused"
    assert orphans <= scene.listed()
    assert scene.maintainer().execute(plan_id, confirm=plan_id).status == "done"
    assert not orphans & scene.listed()
    assert_all_readable(scene.table)


@pytest.mark.parametrize(("orphans", "live", "asks"), [(1000, 10, False), (1001, 1001, False), (1001, 1000, True)])
def test_a_plan_of_much_of_the_table_asks_first(orphans: int, live: int, asks: bool) -> None:
    scene = OrphanScene()
    scene.table.commit(manifests=[[f"+F{number}" for number in range(live)]], size={f"F{n}": 6 for n in range(live)})
    for number in range(orphans):
        scene.orphan(f"o{number}")
    scene.age()
    report = scene.maintainer().run("remove-orphan-files", execute=False)
    assert report.plan is not None
    assert report.plan.header.needs_confirmation == asks


def test_bytes_count_as_well() -> None:
    scene = OrphanScene()
    scene.table.commit(manifests=[[f"+F{number}" for number in range(1100)]], size={f"F{n}": 6 for n in range(1100)})
    for number in range(1001):
        scene.orphan(f"o{number}", data=b"orphans")
    scene.age()
    report = scene.maintainer().run("remove-orphan-files", execute=False)
    assert report.plan is not None
    assert report.plan.header.needs_confirmation


def test_a_file_of_the_bucket_that_waits_for_its_bucket() -> None:
    scene = OrphanScene(primary_keys=("k",), options={"bucket": "-2"})
    name = f"data--u-user.1-s-7-w-{unique('w')}-0.avro"
    live = f"data--u-user.2-s-7-w-{unique('v')}-0.avro"
    scene.table.commit(f"+{live}", bucket={live: -2})
    orphan = scene.put(f"dt=v00000/bucket-postpone/{name}")
    elsewhere = scene.put(f"{FOLDER}{name}")
    scene.age()
    assert scene.remove() == {orphan}
    assert elsewhere in scene.listed(), "no writer gives a file such a name in another bucket"
