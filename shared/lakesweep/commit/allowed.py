"""Which tables Lakesweep may commit to.

A commit of Paimon's engine does more than write a snapshot: it tells a metastore, Iceberg or classes of the user. A
commit that leaves this out would make two truths of one table. So such a table is refused, and so is every table with a
sign that this version does not know. A rewrite of manifests changes no row, and Paimon tells nobody of it; so more
tables allow it. A repair takes rows away, although they were lost before, so it is treated as a drop.

Source: Paimon `AbstractFileStore#createCommitCallbacks`, `StrictModeChecker`, `FallbackReadFileStoreTable`,
`CoreOptions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.snapshot import LATEST_VERSION, Snapshot
from lakesweep.format.snapshot_writer import properties_of, unknown_fields
from lakesweep.format.values.json_document import describe, shorten
from lakesweep.model.policy import OWNED_BY_FILES

Kind = Literal["drop", "compact_manifest", "repair", "rollback", "vectors", "delete_rows", "return_rows", "compact"]
"""`drop`: files leave the table, as in drops, truncation and expiry. `repair`: what does not exist leaves it.
`rollback`: files of an older version return. `vectors`: deletion vectors of files that are gone leave the index.
`delete_rows`: rows get deletion vectors. `return_rows`: they lose them again. `compact`: data files are rewritten."""

MANIFEST_FORMAT = "manifest_format"
"""Code of a table whose manifests and lists have a format that Lakesweep does not write."""
SEQUENCE_PROPERTY = "sequence.generation.max-sequence-number"

_INSTEAD: Mapping[Kind, str] = {
    "drop": "in Paimon instead (CALL sys.drop_partition, CALL sys.expire_partitions or TRUNCATE TABLE)",
    "compact_manifest": "in Paimon instead (CALL sys.compact_manifest)",
    "repair": "in Paimon instead (CALL sys.remove_unexisting_files or CALL sys.remove_unexisting_manifests)",
    "rollback": "in Paimon 2.0 or later instead (CALL sys.rollback_to_as_latest)",
    "vectors": "in another way (Paimon has no command for it)",
    "delete_rows": "in Paimon instead (DELETE FROM in Spark)",
    "return_rows": "in Paimon 2.0 or later instead (CALL sys.rollback_to_as_latest)",
    "compact": "in Paimon instead (CALL sys.compact)",
}
_WHAT: Mapping[Kind, str] = {
    "drop": "drop partitions",
    "compact_manifest": "compact manifests",
    "repair": "repair the table",
    "rollback": "roll back as latest",
    "vectors": "clean deletion vectors",
    "delete_rows": "delete rows",
    "return_rows": "bring deleted rows back",
    "compact": "compact",
}

_NO_ROW_CHANGES = frozenset[Kind]({"compact_manifest", "vectors"})
_WHY_WHOLE_ROWS: Mapping[Kind, str] = {
    "repair": "the columns of a row may lie in several files, so rows would lose only some of them",
    "vectors": "the columns of a row may lie in several files, so a vector may count for more files than it names",
    "delete_rows": "the columns of a row may lie in several files, so rows would lose only some of them",
    "return_rows": "the columns of a row may lie in several files, so rows would get back only some of them",
    "compact": "the columns of a row may lie in several files",
}
_FALLBACKS = ("scan.fallback-branch", "scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
_COMMIT_OPTIONS = frozenset(
    f"commit.{name}"
    for name in (
        "force-compact", "timeout", "max-retries", "min-retry-wait", "max-retry-wait", "callbacks",
        "force-create-snapshot", "user-prefix", "strict-mode.last-safe-snapshot", "discard-duplicate-files",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Told:
    """An option that makes Paimon tell others of each commit."""

    option: str
    why: str
    without: tuple[str, ...] = ("",)
    """Values that tell nobody, in lower case."""
    code: str = "needs_engine_callbacks"


_TOLD = (
    _Told("commit.callbacks", "classes that are called for each commit"),
    _Told("metadata.iceberg.storage", "Iceberg metadata follows each commit", ("", "disabled")),
    _Told("metastore.tag-to-partition", "a metastore shows the newest commit as a partition"),
    _Told("metastore.tag-to-partition.preview", "a metastore shows the newest commit as a partition", ("", "none")),
    _Told("chain-table.enabled", "the branches of a chain table depend on each other", ("", "false")),
    _Told("metastore.partitioned-table", "a metastore has each partition", ("", "false"), code="metastore_partitions"),
)


def refuse_commit(
    schema: TableSchema,
    base: Snapshot,
    base_body: bytes,
    catalog: str | None,
    kind: Kind,
    fallback_reappears: bool,
) -> tuple[str, ...]:
    """Refuse a commit to a table that does not allow it.

    What a person has to declare is refused last: with `catalog_not_declared`, everything else allows the commit.

    Args:
        schema: The newest schema of the branch.
        base: The newest snapshot of the branch.
        base_body: Its document.
        catalog: The declared type of the table's catalog, `None` if none is declared.
        kind: What the commit does.
        fallback_reappears: The caller knows that a fallback branch shows its copy of dropped rows again.

    Returns:
        Warnings about a commit that is allowed.

    Raises:
        RefusedError: The commit is not allowed; the code says why.
        FormatError: The document of the snapshot is damaged.
    """
    options = schema.options
    for check in (_check_type, _check_manifests, _check_commit_options, _check_strict_mode):
        check(options, kind)
    if kind in _WHY_WHOLE_ROWS:
        _check_columns(options, kind)
    if kind != "compact_manifest":
        _check_told(schema, kind)
    warnings: tuple[str, ...] = ()
    if kind not in _NO_ROW_CHANGES:
        _check_sequences(options, base, base_body, kind)
    refuse_unknown(base, base_body, kind)
    if kind not in _NO_ROW_CHANGES:
        warnings = _fallback(options, kind, fallback_reappears)
    _check_catalog(catalog, kind)
    return warnings


def _check_type(options: Mapping[str, str], kind: Kind) -> None:
    if _word(options, "type") not in ("", "table"):
        why = "Paimon has only a reference to it"
        raise _refusal(options, "type", why, f"{_WHAT[kind]} in its own system", code="not_a_paimon_table")


def _check_manifests(options: Mapping[str, str], kind: Kind) -> None:
    if _word(options, "manifest.format") not in ("", "avro"):
        why = "Lakesweep writes manifests in Avro only"
        raise _refusal(options, "manifest.format", why, _instead(kind), code=MANIFEST_FORMAT)
    if kind == "compact_manifest" and _word(options, "manifest-sort.enabled") not in ("", "false"):
        why = "the table wants its manifests sorted, which Lakesweep does not do"
        raise _refusal(options, "manifest-sort.enabled", why, _instead(kind), code="manifest_sort")


def _check_commit_options(options: Mapping[str, str], kind: Kind) -> None:
    for option in sorted(options):
        if not option.startswith("commit.") or option in _COMMIT_OPTIONS:
            continue
        if option.startswith("commit.callback.") and option.endswith(".param"):
            continue
        why = "a rule about commits that this version does not know"
        raise _refusal(options, option, why, _instead(kind), code="unknown_commit_option")


def _check_strict_mode(options: Mapping[str, str], kind: Kind) -> None:
    option = "commit.strict-mode.last-safe-snapshot"
    if option in options:
        why = "a job that fails when another user overwrites or compacts"
        advice = f"{_WHAT[kind]} when the job has ended, and reset the option"
        raise _refusal(options, option, why, advice, code="strict_mode")


def _check_columns(options: Mapping[str, str], kind: Kind) -> None:
    option = "data-evolution.enabled"
    if _word(options, option) not in ("", "false"):
        raise _refusal(options, option, _WHY_WHOLE_ROWS[kind], _instead(kind), code="data_evolution")


def _check_told(schema: TableSchema, kind: Kind) -> None:
    for told in _TOLD:
        if told.code == "metastore_partitions" and not schema.partition_keys:
            continue
        if _word(schema.options, told.option) not in told.without:
            raise _refusal(schema.options, told.option, told.why, _instead(kind), code=told.code)


def _check_sequences(options: Mapping[str, str], base: Snapshot, body: bytes, kind: Kind) -> None:
    option = "write.sequence-number-init-mode"
    if _word(options, option) == "snapshot" and SEQUENCE_PROPERTY not in properties_of(body, f"snapshot {base.id}"):
        why = f"each snapshot has the property {SEQUENCE_PROPERTY}, but snapshot {base.id} does not"
        raise _refusal(options, option, why, _instead(kind), code="sequence_property")


def refuse_unknown(snapshot: Snapshot, body: bytes, kind: Kind) -> None:
    """Refuse to build on a snapshot that says something which Lakesweep does not know and so would lose.

    Raises:
        RefusedError: With code `unknown_snapshot_field`.
        FormatError: The document is damaged.
    """
    unknown = unknown_fields(body, f"snapshot {snapshot.id}")
    if (snapshot.version or 0) > LATEST_VERSION:
        unknown = (f"version {snapshot.version}", *unknown)
    if unknown:
        raise RefusedError(
            f"snapshot {snapshot.id} has {shorten(', '.join(map(ascii, unknown)))}, which this version does not know "
            f"and would lose; {_instead(kind)}, or use a later version of Lakesweep",
            code="unknown_snapshot_field",
        )


def _fallback(options: Mapping[str, str], kind: Kind, reappears: bool) -> tuple[str, ...]:
    """Return warnings about fallback branches, which show their copy of a partition that the branch does not have."""
    stated = [option for option in _FALLBACKS if options.get(option, "").strip()]
    if stated and not reappears:
        option = stated[0]
        why = "readers see that branch's copy of a dropped partition"
        advice = f"state fallback_reappears if this is intended, or {_instead(kind)}"
        raise _refusal(options, option, why, advice, code="fallback_branch")
    which = "each dropped partition" if kind == "drop" else "each partition without files"
    return tuple(
        f"option {option} is {describe(options[option])}, so readers see that branch's copy of {which}"
        for option in stated
    )


def _check_catalog(catalog: str | None, kind: Kind) -> None:
    if catalog == "rest":
        raise RefusedError(
            f"the catalog is declared as rest, and its server alone publishes snapshots; {_instead(kind)}",
            code="rest_catalog",
        )
    if catalog not in OWNED_BY_FILES:
        found = "no catalog type" if catalog is None else f"the unknown catalog type {describe(catalog)}"
        raise RefusedError(
            f"{found} is declared, and a table's files do not show who publishes its snapshots; expected "
            f"--catalog-type, or catalog_type in the fleet policy or in JSON: {', '.join(OWNED_BY_FILES)}; or "
            f"{_instead(kind)}",
            code="catalog_not_declared",
        )


def _word(options: Mapping[str, str], option: str) -> str:
    return options.get(option, "").strip().lower()


def _instead(kind: Kind) -> str:
    return f"{_WHAT[kind]} {_INSTEAD[kind]}"


def _refusal(options: Mapping[str, str], option: str, why: str, advice: str, *, code: str) -> RefusedError:
    return RefusedError(f"option {shorten(option)} is {describe(options[option])} ({why}); {advice}", code=code)
