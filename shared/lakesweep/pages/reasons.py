"""The reasons why objects exist, in the words and colours of a page."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """Reasons that have one colour."""

    name: str
    label: str
    reasons: tuple[str, ...]


FAMILIES = (
    Family("current", "newest snapshot", ("current",)),
    Family("snapshots", "older snapshots", ("snapshots", "shared")),
    Family("tags", "tags", ("tags",)),
    Family("branches", "branches", ("branches",)),
    Family("changelogs", "changelogs", ("changelogs",)),
    Family("consumer", "consumers", ("consumer",)),
    Family("expired", "the next expiry deletes it", ("expired", "due")),
    Family("orphan", "orphan files", ("orphan",)),
    Family("other", "everything else", ()),
)
"""In the order of the legend. The last one has every reason that no other has."""
SAYS = {
    "current": "the newest snapshot needs them",
    "snapshots": "only older snapshots need them, which are not due yet",
    "shared": "several kinds of older roots need them",
    "tags": "only tags need them",
    "branches": "only other branches need them",
    "changelogs": "only long-lived changelogs need them",
    "consumer": "only snapshots that a consumer holds back need them",
    "expired": "the next expiry deletes them",
    "due": "due, but beyond the limit of one expiry",
    "orphan": "no root names them: remove-orphan-files deletes them",
    "missing": "readers need them, but they do not exist",
    "deleted_entries": "deleted, but manifests that are not merged yet still name them",
    "too_young": "no root names them, but a writer may still commit them",
    "damaged_root": "no root names them, but a root is incomplete",
    "live_owner": "extra files of files in use",
    "foreign": "names that Paimon does not use",
    "reported": "left by other programs",
    "nested_table": "of another table, in a folder of this table",
    "link": "symbolic links",
    "pack": "managed packs of large values, never deleted",
    "document": "snapshots, schemas, tags and other documents",
}
"""What each reason means."""


def family_of(reason: str) -> str:
    """Return the name of the family of a reason."""
    return next((family.name for family in FAMILIES if reason in family.reasons), FAMILIES[-1].name)
