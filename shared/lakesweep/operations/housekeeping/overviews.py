"""Housekeeping of what overviews remember: one document for each folder of tables, which is a cache.

It needs no lease, since a document that is lost costs measurements. An overview that writes it meanwhile keeps it.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from lakesweep.control.overviews import NAME, ROOT
from lakesweep.model.housekeeping import Count, Document, Kind, counts_of
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.report import outcome_to_json
from lakesweep.storage.store import DeleteRequest, Store

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Overviews:
    """What becomes of remembered overviews."""

    going: tuple[Count, ...] = ()
    kept: tuple[Count, ...] = ()
    outcome: Outcome | None = None

    def to_json(self) -> dict[str, object]:
        """Return its part of the document described in `docs/cli_json.md`."""
        return {
            "delete": [asdict(each) for each in self.going],
            "kept": [asdict(each) for each in self.kept],
            "outcome": None if self.outcome is None else outcome_to_json(self.outcome),
        }


def keep_overviews(control: Store, caches_ms: int | None, now_ms: int, *, execute: bool) -> Overviews:
    """Decide about remembered overviews, and with `execute` delete those that nobody has asked for lately.

    Args:
        control: The control location.
        caches_ms: How long caches are kept; `None`: for good.
        now_ms: The time.
        execute: Delete.

    Raises:
        StorageError: A request failed.
    """
    going: list[tuple[Document, str]] = []
    kept: list[tuple[Document, str]] = []
    for each in _documents(control):
        if each.kind == "foreign":
            kept.append((each, "foreign"))
        elif caches_ms is None:
            kept.append((each, "kept_for_good"))
        elif now_ms - each.modified_ms <= caches_ms:
            kept.append((each, "young"))
        else:
            going.append((each, f"older than {caches_ms // 86_400_000} d"))
    outcome = _deleted(control, [each for each, _ in going]) if execute and going else None
    return Overviews(counts_of(going), counts_of(kept), outcome)


def _documents(control: Store) -> Iterator[Document]:
    for entry in control.list(f"{ROOT}/"):
        name = entry.key.removeprefix(f"{ROOT}/")
        is_own = not entry.is_link and name.count("/") == 1 and name.endswith(f"/{NAME}")
        kind: Kind = "overview" if is_own else "foreign"
        yield Document("overviews", name, entry.size_bytes, entry.etag, entry.modified_ms, kind, name)


def _deleted(control: Store, documents: list[Document]) -> Outcome:
    total = Outcome()
    for start in range(0, len(documents), _BATCH):
        batch = documents[start : start + _BATCH]
        answers = control.delete([DeleteRequest(f"{ROOT}/{each.name}", each.etag) for each in batch])
        pairs = list(zip(batch, answers, strict=True))
        total += Outcome(
            deleted=sum(answer.code == "deleted" for _, answer in pairs),
            already_gone=sum(answer.code == "already_gone" for _, answer in pairs),
            failed=tuple(
                FailedDelete(f"{ROOT}/{each.name}", answer.code)
                for each, answer in pairs
                if not answer.ok and answer.code != "precondition_failed"
            ),
            kept_by_recheck=sum(answer.code == "precondition_failed" for _, answer in pairs),
            deleted_bytes=sum(each.size_bytes for each, answer in pairs if answer.code == "deleted"),
        )
    return total
