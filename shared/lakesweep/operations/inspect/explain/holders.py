"""Which roots hold the file that `explain` asks about, where their readers look for it, and how long they are kept."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import IndexEntry, ManifestEntry
from lakesweep.format.vectors.index_file import widths_of
from lakesweep.model.roots import MAIN, RootRef, base_name
from lakesweep.operations.inspect.explain.explanation import Holder, IndexContent, VectorInFile
from lakesweep.operations.lifetimes.until import Until
from lakesweep.table.paths import PathsOfRoots
from lakesweep.table.reach.completeness import stated_size
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import LiveSet
from lakesweep.table.reach.named_entries import data_names, index_names, names_of

_NAMED = 4
"""This many holders are named in a clause."""


@dataclass(slots=True)
class Holding:
    """The mentions of one name by the roots."""

    needed: int = 0
    named: int = 0
    kind: str | None = None
    uses: list[tuple[ManifestEntry | IndexEntry, int]] = field(default_factory=list)
    """Entries of the file that some root needs, with these roots."""
    paths: set[str] = field(default_factory=set)
    """Paths of lists, manifests and statistics of this name that some root needs."""
    is_deleted: bool = False
    """Some manifest has an entry that deletes it."""

    def add(self, kind: str, named: int, needed: int) -> None:
        """Add a mention."""
        self.kind = self.kind or kind
        self.named |= named
        self.needed |= needed

    def places(self, name: str, holders: Holders, rules: PathsOfRoots) -> set[str]:
        """Return the paths at which readers look for files of this name; nothing if that cannot be determined."""
        found = set(self.paths)
        try:
            for entry, roots in self.uses:
                for paths in rules.of(holders.roots_in(roots)):
                    found.update(paths.files(entry))
        except MaintenanceError:  # a schema or an entry that determines a path cannot be read
            return set()
        return {path for path in found if base_name(path) == name}

    def stated_size(self, path: str, holders: Holders, rules: PathsOfRoots) -> int | None:
        """Return the size that the entries of the file at a path state, `None` if there is not exactly one."""
        found: set[int | None] = set()
        try:
            for entry, roots in self.uses:
                if any(paths.files(entry)[0] == path for paths in rules.of(holders.roots_in(roots))):
                    found.add(stated_size(entry))
        except MaintenanceError:  # a schema or an entry that determines a path cannot be read
            return None
        return found.pop() if len(found) == 1 else None

    def index(self, holders: Holders, rules: PathsOfRoots, live: LiveSet) -> IndexContent | None:
        """Return the content of an index file, `None` if it is none or its partition cannot be determined."""
        use = next(((entry, roots) for entry, roots in self.uses if isinstance(entry, IndexEntry)), None)
        if use is None:
            return None
        entry, roots = use
        try:
            partition = rules.of(holders.roots_in(roots))[0].partition_values(entry.partition)
        except MaintenanceError:  # a schema or an entry that determines the partition cannot be read
            return None
        widths = widths_of(entry)
        vectors = (
            VectorInFile(name, offset, length, widths.get(offset), cardinality, not live.has(name))
            for name, offset, length, cardinality in entry.vectors
        )
        return IndexContent(entry.index_type, partition, entry.bucket, entry.row_count, tuple(vectors))


def holding_of(holders: Holders, name: str) -> Holding:
    """Return the mentions of a name by the roots. Reads each manifest."""
    found = Holding()
    for named in holders.named():
        if named.name == name:
            found.add(named.kind, named.named_by, named.needed_by)
            if named.needed_by:
                found.paths.add(named.path)
    for index in holders.indexes():
        if name in index_names(index.entry):
            found.add("index", index.named_by, index.needed_by)
            if index.needed_by:
                found.uses.append((index.entry, index.needed_by))
    for mention in holders.mentions(lambda entry: name in names_of(entry)):
        kind = "data" if name in data_names(mention.entry) else "extra"
        found.add(kind, mention.named_by, mention.needed_by)
        found.is_deleted = found.is_deleted or not mention.entry.is_add
        if mention.needed_by:
            found.uses.append((mention.entry, mention.needed_by))
    return found


def grouped(refs: Iterable[RootRef], untils: Mapping[str, Until], needs: bool) -> Iterator[Holder]:
    """Yield one holder for a branch's snapshots, one for its changelogs, and one for each tag."""
    groups: dict[tuple[str, str, str], list[RootRef]] = {}
    for ref in refs:
        groups.setdefault((ref.branch, ref.kind, ref.name if ref.kind == "tag" else ""), []).append(ref)
    order = {"snapshot": 0, "tag": 1, "changelog": 2}
    for branch, kind, tag in sorted(groups, key=lambda key: (key[0] != MAIN, key[0], order[key[1]], key[2])):
        found = groups[branch, kind, tag]
        found.sort(key=lambda ref: ref.id if ref.kind != "tag" else 0)
        last = untils[found[-1].path]
        yield Holder(kind, branch, found[0].name, found[-1].name, len(found), needs, last.says, last.at_ms)


def say_holders(held: Sequence[Holder]) -> str:
    """Say which roots need a file, in words; only the first few are named."""
    names = [str(holder) for holder in held[:_NAMED]]
    if len(held) > _NAMED:
        names.append(f"{len(held) - _NAMED} more")
    needs = "needs it" if len(held) == 1 and held[0].count == 1 else "need it"
    return f"{' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)} {needs}"
