"""`explain TABLE`: why a table's bytes exist (`counting.py`). This changes nothing."""

from dataclasses import asdict, dataclass

from lakesweep.errors import StorageError
from lakesweep.format.codec import to_json
from lakesweep.model.damage import LOST_HISTORIES, lost_histories
from lakesweep.operations.inspect.explain.counting import Counting, Share, kinds_by_name
from lakesweep.operations.inspect.judging import judge
from lakesweep.operations.lifetimes.ruling import ShownRuling
from lakesweep.operations.orphans.rules.orphans import SAMPLE
from lakesweep.runs.damage import warnings_of
from lakesweep.runs.session import Table
from lakesweep.storage.listing import list_all
from lakesweep.storage.open import noncurrent_versions
from lakesweep.storage.versions import Noncurrent

PARALLELISM = 8


@dataclass(frozen=True, slots=True)
class TableShares:
    """Everything that `explain TABLE` says."""

    table: str
    objects: int
    bytes: int
    """The bytes of current object versions."""
    current_bytes: int
    """The bytes that the newest snapshot of main needs: data and metadata."""
    shares: tuple[Share, ...]
    noncurrent: Noncurrent | None
    """`None`: the store keeps no versions, or cannot list them."""
    policy: ShownRuling | None = None
    """What the fleet policy says about the table; `None`: none is stated."""
    warnings: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    """A sentence for each branch that has lost its snapshots. The warnings repeat it."""

    @property
    def factor(self) -> float | None:
        """The bytes of the table, versions included, as a multiple of the bytes that its newest snapshot needs."""
        paid = self.bytes + (self.noncurrent.bytes if self.noncurrent is not None else 0)
        return round(paid / self.current_bytes, 2) if self.current_bytes else None

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "objects": self.objects,
            "bytes": self.bytes,
            "current_bytes": self.current_bytes,
            "factor": self.factor,
            "reasons": [{**asdict(share), "first": list(share.first)} for share in self.shares],
            "noncurrent": None if self.noncurrent is None else asdict(self.noncurrent),
            "policy": to_json(self.policy),
            "warnings": list(self.warnings),
            "damage": list(self.damage),
        }


def explain_table(table: Table, older_than_ms: int | None = None) -> TableShares:
    """Count a table's objects and bytes by the reason that keeps them.

    Args:
        table: Any branch of it; all are counted.
        older_than_ms: Objects written later are too young to be orphans; default: a day ago.

    Raises:
        RefusedError: This is no table, or roots cannot be read.
        StorageError: A request failed.
    """
    judging = judge(table, older_than_ms)
    lifetimes = judging.lifetimes()
    counting = Counting(judging, kinds_by_name(judging, lifetimes, judging.holders()))
    counting.count_all(list_all(table.store, "", parallel=PARALLELISM))
    damage = warnings_of({LOST_HISTORIES: lost_histories(judging.found.listing)})
    warnings = [*damage, *judging.warnings(), *lifetimes.warnings]
    if judging.stores.external_roots:
        warnings.append(
            f"files below {', '.join(judging.stores.external_roots)} lie outside the table and are not counted"
        )
    missing = counting.missing()
    warnings += missing.warnings(judging.found.live.damaged.values())
    shares = tuple(counting.shares())
    if missing.files:
        first = tuple(file.path for file in missing.files[:SAMPLE])
        shares = (Share("missing", len(missing.files), 0, first), *shares)
    noncurrent = None
    try:
        noncurrent = noncurrent_versions(table.store)
    except StorageError as error:
        warnings.append(f"versions that are not current are not counted: {error}")
    return TableShares(
        table=table.ref.location,
        objects=sum(counting.count.values()),
        bytes=sum(counting.bytes.values()),
        current_bytes=counting.bytes["current"],
        shares=shares,
        noncurrent=noncurrent,
        policy=lifetimes.policy,
        warnings=tuple(warnings),
        damage=damage,
    )
