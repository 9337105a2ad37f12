"""Write the files of a prepared snapshot, and find out whether the store keeps to conditions.

Until the snapshot exists, these files are orphans: nothing refers to them, and an orphan scan deletes them after the
orphan age.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.errors import (
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
)
from lakesweep.format.manifest import read_manifest_list
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.snapshot_writer import write_snapshot
from lakesweep.storage.store import Store
from lakesweep.storage.together import waits
from lakesweep.table.contents.strict import CORRUPT

_FOLDER = "manifest/"
_LIST = "manifest-list-"
_AT_ONCE = 16
NO_CONDITIONAL_PUT = "no_conditional_put"
_UNSUPPORTED = frozenset({"not_implemented", "501", "400", "InvalidArgument", "InvalidRequest"})
"""How servers answer that do not know the header If-None-Match."""


def check_prepared(prepared: Prepared, attempt: Attempt, where: str) -> bytes:
    """Make sure that a prepared snapshot follows its base, that its lists are new files, and that others can read it.

    Returns:
        Its document.

    Raises:
        RefusedError: It does not; nothing has been written.
    """
    snapshot, base = prepared.snapshot, attempt.base.root.snapshot
    sizes = {name: len(body) for name, body in prepared.files.items()}
    facts = {
        "id": (base.id + 1, snapshot.id),
        "uuid": (attempt.uuid, snapshot.uuid),
        "commit user": (attempt.commit_user, snapshot.commit_user),
        "operation": (None, snapshot.operation),
        "size of the base list": (sizes.get(snapshot.base_manifest_list), snapshot.base_manifest_list_size),
        "size of the delta list": (sizes.get(snapshot.delta_manifest_list), snapshot.delta_manifest_list_size),
        "file names with a folder": ([], [name for name in sizes if "/" in name or not name]),
        "time before the base": (False, snapshot.time_ms < base.time_ms),
    }
    for fact, (expected, found) in facts.items():
        if expected != found:
            raise RefusedError(
                f"{where}: expected the prepared snapshot to have {fact} {expected!r}, found {found!r}",
                code="bad_snapshot",
            )
    try:
        body = write_snapshot(snapshot, prepared.properties)
        parse_snapshot(body, f"snapshot {snapshot.id}")
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            read_manifest_list(prepared.files[name], name)
    except FormatError as error:
        raise RefusedError(
            f"{where}: expected to prepare a snapshot and lists that readers can read, found {error}",
            code=CORRUPT,
        ) from error
    return body


def write_files(store: Store, files: Mapping[str, bytes], before_each: Callable[[], None]) -> None:
    """Write new files below `manifest/`, and the manifest lists after all others.

    Args:
        store: The table's store.
        files: File name -> body.
        before_each: Called before each file; may raise.

    Raises:
        RefusedError: A file of this name exists (`name_taken`), or the store knows no conditions
            (`no_conditional_put`).
        StorageError: A request failed. Some files may exist; they are orphans.
    """
    lists = sorted(name for name in files if name.startswith(_LIST))
    others = sorted(files.keys() - lists)

    def write(name: str) -> None:
        before_each()
        write_file(store, name, files[name])

    def write_all(names: Sequence[str]) -> None:
        if len(names) < 2 or not waits(store):
            for name in names:
                write(name)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(names)), thread_name_prefix="manifests") as pool:
            for _ in pool.map(write, names):
                pass

    # A list never names a manifest that does not exist, also if the process dies in between.
    write_all(others)
    write_all(lists)


def write_file(store: Store, name: str, body: bytes) -> None:
    """Write one new file below `manifest/`; see `write_files`."""
    write_new(store, f"{_FOLDER}{name}", body)


def write_new(store: Store, path: str, body: bytes) -> None:
    """Write one new file, whatever its folder; see `write_files`."""
    for is_last in (False, True):
        try:
            store.put(path, body, if_absent=True)
        except PreconditionFailedError as error:
            # Either the answer to an earlier attempt was lost, or S3 saw two requests for one key at a time.
            try:
                found = store.read(path, max_bytes=len(body)).data
            except ObjectNotFoundError:
                if is_last:
                    raise error from None
                continue
            except StorageError as failure:
                if failure.code != "too_large":
                    raise
                found = b""
            if found != body:
                raise RefusedError(
                    f"{store.location}/{path}: expected no file of this new name, found one of other content",
                    code="name_taken",
                ) from error
            return
        except StorageError as error:
            if is_unsupported(error):
                raise refusal(store, str(error)) from error
            raise
        return


def probe(store: Store, files: Mapping[str, bytes]) -> None:
    """Make sure that a store refuses to create a file that exists.

    The smallest new file is written once more. The store must refuse; if it does not, the file has the same content as
    before, so nothing is harmed.

    Raises:
        RefusedError: The store ignores the condition (`no_conditional_put`).
        StorageError: The request failed.
    """
    name = min(files, key=lambda each: (len(files[each]), each))
    try:
        store.put(f"{_FOLDER}{name}", files[name], if_absent=True)
    except PreconditionFailedError:
        return
    except StorageError as error:
        if is_unsupported(error):
            raise refusal(store, str(error)) from error
        raise
    raise refusal(store, f"it wrote {_FOLDER}{name} although this file exists")


def is_unsupported(error: StorageError) -> bool:
    """Tell whether a store does not know the condition of a put."""
    return error.code in _UNSUPPORTED


def refusal(store: Store, why: str) -> RefusedError:
    """Return the error for a store on which no commit is safe."""
    return RefusedError(
        f"{store.location}: expected a store that creates a file only if none exists (If-None-Match), found that it "
        f"cannot: {why}. Without this, a commit could replace a snapshot of another writer",
        code=NO_CONDITIONAL_PUT,
    )
