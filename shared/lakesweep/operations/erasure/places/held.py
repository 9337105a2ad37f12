"""What the roots of a table need and name of tainted data files.

Each manifest that a root names is read once, or once more if it deletes files. Those that name a tainted file are read
again for their statistics.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.identity_digests import Digests
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.row_entries import RowEntry
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.erasure.places.stats import Taint, taint_of
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_each_root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import real_name
from lakesweep.table.reach.held import Unread
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import Wholeness, name_hash
from lakesweep.table.reach.named_entries import names_of


@dataclass(frozen=True, slots=True)
class NamingManifest:
    """A manifest that names tainted files, in additions or deletions."""

    name: str
    named_by: int
    """The roots that name it, as a set of `Held.holders`."""
    taint: Taint


@dataclass(slots=True)
class Held:
    """What roots need and name."""

    refs: tuple[RootRef, ...]
    holders: Holders
    unread: frozenset[str]
    """Paths of roots that cannot be read as a whole."""
    needed: Digests = field(default_factory=Digests)
    """Digests of the names of all data files, and files beside them, that some root needs."""
    named: Digests = field(default_factory=Digests)
    """Digests of the names of all data files that some root names."""
    tainted: dict[str, int] = field(default_factory=dict)
    """Name of a tainted file -> the roots that need it."""
    naming: list[NamingManifest] = field(default_factory=list)
    unread_manifests: dict[str, str] = field(default_factory=dict)
    """Path of a list or manifest -> why it cannot be read."""

    def needs(self, names: Iterable[str]) -> bool:
        """Tell whether a root needs one of some files."""
        return any(name_hash(name) in self.needed for name in names)

    def names(self, name: str) -> bool:
        """Tell whether a root names a data file."""
        return name_hash(name) in self.named

    def refs_in(self, roots: int) -> list[RootRef]:
        """Return the roots of a set, in the order of all roots."""
        chosen = {root.ref.path for root in self.holders.roots_in(roots)}
        return [ref for ref in self.refs if ref.path in chosen]


def held_by_roots(view: TableView, erased: ErasedFiles) -> Held:
    """Read what all roots need and name.

    Raises:
        StorageError: A read failed, and the document was neither absent nor damaged.
    """
    store = view.table.store
    refs = tuple(view.listing.roots())
    documents = read_each_root(store, refs)
    roots = [root for ref in refs if isinstance(root := documents[ref.path], Root)]
    unread = frozenset(ref.path for ref in refs if isinstance(documents[ref.path], RefusedError))
    reader = MetadataReader(store, again=True)
    holders = Holders(reader, roots)
    found = Held(refs, holders, unread)
    naming, names = set[str](), erased.names
    for mention in holders.mentions():
        entry, roots_in_need = mention.entry, mention.needed_by
        found.named.add(name_hash(entry.file_name))
        if (name := real_name(entry.file_name)) in names:
            naming.add(mention.manifest)
            found.tainted[name] = found.tainted.get(name, 0) | roots_in_need
        if roots_in_need:
            _note(found.needed, entry)
    _read_again(view, erased, found, reader, naming)
    gaps = real_gaps(view, holders)
    found.unread |= {gap.root.ref.path for gap in gaps}
    found.unread_manifests |= {gap.content.path: gap.content.problem for gap in gaps}
    return found


def real_gaps(view: TableView, holders: Holders) -> tuple[Unread, ...]:
    """Return the documents that roots lack. Some roots lose a part without damage: then nothing is to be read."""
    tagged = {(root.ref.branch, root.snapshot.id) for root in holders.roots if root.ref.kind == "tag"}
    wholeness = Wholeness(view.table.store, view.listing, tagged)
    return tuple(each for each in holders.gaps if not each.content.missing or wholeness.is_strict(each.root, each.part))


def _note(needed: Digests, entry: ManifestEntry) -> None:
    for name in names_of(entry):
        needed.add(name_hash(name))


def _read_again(view: TableView, erased: ErasedFiles, found: Held, reader: MetadataReader, names: set[str]) -> None:
    chosen = {name: each for name, each in found.holders.manifests() if name in names}

    def judge(entries: Iterator[RowEntry]) -> Taint:
        return taint_of(entries, erased)

    for name, content in reader.scan_row_entries([each.meta for each in chosen.values()], judge, with_stats=True):
        taint = Taint(is_known=False) if isinstance(content, Unreadable) else content
        found.naming.append(NamingManifest(name, chosen[name].named, taint))


def partition_folder(view: TableView, partition: bytes) -> str | None:
    """Return the folder of a partition, "" without partitions; `None` if it cannot be told."""
    try:
        return view.paths().partition_dir(partition)
    except (FormatError, RefusedError):
        return None
