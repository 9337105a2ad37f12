"""Which tables with a primary key Lakesweep compacts, and how their rows are merged.

Only what makes the same rows as Paimon is allowed: rows of one key of which the newest counts, in Parquet. Everything
else is refused by its option. `options` says of each option whether an older schema matters too.

Source: Paimon `MergeTreeCompactManagerFactory`, `LookupStrategy`, `DeduplicateMergeFunction`,
`UserDefinedSeqComparator`, `TableSchema#crossPartitionUpdate`.
"""

from collections.abc import Iterable, Mapping, Sequence

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import DELETION_VECTORS, HASH, POSTPONE_BUCKET, IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.json_document import describe, shorten
from lakesweep.format.values.options import bad_option, parse_bool, parse_int
from lakesweep.model.keyed import MergeRules
from lakesweep.operations.keyed.rules.columns import (
    INSTEAD,
    check_columns,
    check_keys,
    check_ordered,
    check_same_keys,
    fields,
    merge_keys,
)
from lakesweep.operations.keyed.rules.options import (
    BUCKET,
    IGNORE_DELETE,
    REFUSED,
    REFUSED_NAMES,
    SEQUENCE_FIELD,
    SORT_ORDER,
    THIN,
    VECTORS,
    WRITE_ONLY,
    is_unknown,
)

_DYNAMIC = -1


def check_keyed_table(schemas: Sequence[TableSchema], *, full: bool, is_alone: bool) -> MergeRules:
    """Return how rows of a table are merged, if Lakesweep compacts it.

    What a person has to declare is refused last.

    Args:
        schemas: All schemas of the branch, ascending by id. The last one is the latest.
        full: All files of a bucket are merged.
        is_alone: Somebody declared that nobody else compacts the table.

    Raises:
        RefusedError: Lakesweep does not compact it; the code says why.
    """
    latest, older = schemas[-1], schemas[-2::-1]
    try:
        for schema in (latest, *older):
            _check_options(schema, latest)
            check_columns(schema, latest)
        check_keys(latest)
        for schema in older:
            check_same_keys(schema, latest)
        rules = _rules(latest)
        if rules.has_vectors and not full:
            _check_levels(schemas)
        if not is_alone:
            _check_alone(latest.options)
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error
    return rules


def check_index(entries: Iterable[IndexEntry], *, has_vectors: bool) -> None:
    """Make sure that a compaction keeps the index files of a snapshot right.

    Args:
        entries: The index files.
        has_vectors: Readers apply deletion vectors.

    Raises:
        RefusedError: One is of a kind that Lakesweep does not know (`unknown_index`), or has deletion vectors that
            readers ignore (`vectors_off`).
    """
    for entry in entries:
        if entry.index_type not in (DELETION_VECTORS, HASH):
            raise RefusedError(
                f"expected index files of the types {DELETION_VECTORS} and {HASH}, found {shorten(entry.file_name)} of "
                f"type {describe(entry.index_type)}, which a compaction has to write anew; {INSTEAD}",
                code="unknown_index",
            )
        if entry.vectors and not has_vectors:
            raise RefusedError(
                f"option {VECTORS} is not true, but the index file {shorten(entry.file_name)} has deletion vectors, so "
                f"readers see the rows again that it deletes; {INSTEAD}, or set the option to true again",
                code="vectors_off",
            )


def _check_options(schema: TableSchema, latest: TableSchema) -> None:
    """Refuse what an option says, the options of `REFUSED` first."""
    options, is_latest = schema.options, schema is latest
    for rule in REFUSED:
        is_stated = rule.option in options and options[rule.option].lower() not in rule.allowed
        if is_stated and (is_latest or rule.older is not None):
            raise _refusal(schema, latest, rule.option, rule.why, rule.older, rule.code)
    for option in sorted(options):
        for named in REFUSED_NAMES:
            if named.pattern.fullmatch(option) and (is_latest or named.older is not None):
                raise _refusal(schema, latest, option, named.why, named.older, named.code)
        if is_unknown(option):
            why = "this version does not know how it changes data files"
            raise _refusal(schema, latest, option, why, None, "unknown_option")
    buckets = parse_int(options.get(*BUCKET), BUCKET[0])
    if buckets == POSTPONE_BUCKET:
        why = "rows wait for their bucket, which Paimon chooses when it compacts"
        raise _refusal(schema, latest, BUCKET[0], why, "rows of that schema may still wait", "postpone_bucket")
    if buckets < 1 and buckets != _DYNAMIC:
        raise bad_option(BUCKET[0], "-1 or a number from 1 on", options[BUCKET[0]])


def _refusal(
    schema: TableSchema,
    latest: TableSchema,
    option: str,
    why: str,
    older: str | None,
    code: str,
    instead: str = INSTEAD,
) -> RefusedError:
    where = "" if schema is latest else f" in schema {schema.id}"
    if older is not None and schema is not latest:
        why = f"{why}, and {older}"
    found = describe(schema.options.get(option, "nothing"))
    return RefusedError(f"option {shorten(option)} is {found}{where} ({why}); {instead}", code=code)


def _rules(latest: TableSchema) -> MergeRules:
    options = latest.options
    return MergeRules(
        keys=merge_keys(latest),
        has_vectors=_flag(options, VECTORS),
        ignores_deletes=_flag(options, *IGNORE_DELETE),
        sequence=_sequence(latest),
        is_descending=_is_descending(options),
        is_thin=_flag(options, THIN),
    )


def _sequence(latest: TableSchema) -> tuple[str, ...]:
    if SEQUENCE_FIELD not in latest.options:
        return ()
    text = latest.options[SEQUENCE_FIELD]
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) < len(names) or not set(names) <= {field.name for field in latest.fields}:
        why = "expected different columns of the table"
        raise _refusal(latest, latest, SEQUENCE_FIELD, why, None, "sequence_field")
    for field in fields(latest, names):
        what = f"option {SEQUENCE_FIELD} is {describe(text)}, with the column {shorten(field.name)}"
        check_ordered(field, what, "sequence_field")
    return names


def _is_descending(options: Mapping[str, str]) -> bool:
    text = options.get(SORT_ORDER, "ascending").lower()
    if text not in ("ascending", "descending"):
        raise bad_option(SORT_ORDER, "ascending or descending", options[SORT_ORDER])
    return text == "descending"


def _check_levels(schemas: Sequence[TableSchema]) -> None:
    """Refuse to mark rows of deeper levels where the age of files may not decide which row of a key counts.

    A full compaction compares all rows of a key, so these schemas do not matter to it.
    """
    latest = schemas[-1]
    for schema in reversed(schemas):
        if SEQUENCE_FIELD in schema.options:
            why = "a row of level 0 may count less than an older one below"
            instead = f"expected a full compaction (--full); {INSTEAD}"
            raise _refusal(schema, latest, SEQUENCE_FIELD, why, None, "sequence_field", instead)


def _check_alone(options: Mapping[str, str]) -> None:
    if not _flag(options, *WRITE_ONLY):
        stated = next((option for option in WRITE_ONLY if option in options), WRITE_ONLY[0])
        raise RefusedError(
            f"option {stated} is {describe(options.get(stated, 'false'))} (writers may compact too, and undo deletion "
            f"vectors); expected {WRITE_ONLY[0]} = true, or the declaration that nobody else compacts "
            f"(--sole-compactor, or `sole_compactor` in the fleet policy); {INSTEAD}",
            code="not_alone",
        )


def _flag(options: Mapping[str, str], *names: str) -> bool:
    """Return the value of a switch, by the first of its names that is stated."""
    stated = next((name for name in names if name in options), None)
    return stated is not None and parse_bool(options[stated], stated)
