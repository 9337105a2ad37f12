"""Whether the files of an older version mean the same under the newest schema of a branch.

Files stay as they are, and each names the schema that it was written with. A rollback as latest keeps the newest
schema. So readers see the old files as any files from before a change of the schema: columns that came later are null,
and columns that were dropped are not shown. Other changes are not harmless: what decides which rows a reader gets,
where it looks for files, and into which bucket a writer puts a row, must be the same in both schemas.

Source: Paimon `SchemaManager`, `SchemaValidation`, `CoreOptions`, `WriteRestore`.
"""

from collections.abc import Iterator, Mapping

from lakesweep.errors import some_of
from lakesweep.format.schema import TableSchema

ROW_IDS = ("row-tracking.enabled", "data-evolution.enabled")
"""Options of tables whose rows have ids. What was deleted and comes back would have ids that were given up."""

_DEFAULTS: Mapping[str, str] = {
    "bucket": "-1",
    "bucket-key": "",
    "bucket-function.type": "default",
    "data-file.path-directory": "",
    "deletion-vectors.enabled": "false",
    "deletion-vectors.bitmap64": "false",
    "ignore-delete": "false",
    "ignore-update-before": "false",
    "index-file-in-data-file-dir": "false",
    "merge-engine": "deduplicate",
    "partition.default-name": "__DEFAULT_PARTITION__",
    "partition.legacy-name": "true",
    "pk-clustering-override": "false",
    "rowkind.field": "",
    "sequence.field": "",
    "sequence.field.sort-order": "ascending",
}
"""Options that decide which rows a reader gets, where files lie, and how writers go on; with their defaults."""
_PREFIXES = ("fields.", "partial-update.", "aggregation.")
"""Options that say how rows of one key are merged."""
_NAMED = 5


def unlike(target: TableSchema, newest: TableSchema) -> tuple[str, ...]:
    """Return in words how the newest schema makes something else of the files of an older version; else nothing."""
    found = []
    if _columns(target, target.partition_keys) != _columns(newest, newest.partition_keys):
        found.append("the partition keys differ")
    if _columns(target, target.primary_keys) != _columns(newest, newest.primary_keys):
        found.append("the primary keys differ")
    stated = {name for schema in (target, newest) for name in schema.options if name.startswith(_PREFIXES)}
    for name in sorted(stated | _DEFAULTS.keys()):
        then, now = (_option(schema, name) for schema in (target, newest))
        if then != now:
            found.append(f"{name} was {then or 'not set'} and is {now or 'not set'}")
    return tuple(found)


def columns_changed(target: TableSchema, newest: TableSchema) -> Iterator[str]:
    """Yield sentences about columns that readers do not see as readers of the old version did."""
    then, now = ({column.id: column for column in schema.fields} for schema in (target, newest))
    hidden = [column.name for key, column in then.items() if key not in now]
    null = [column.name for key, column in now.items() if key not in then]
    if hidden:
        yield f"columns that were dropped since are not shown: {some_of(hidden, _NAMED)}"
    if null:
        yield f"columns that were added since are null in these rows: {some_of(null, _NAMED)}"


def _columns(schema: TableSchema, names: tuple[str, ...]) -> list[tuple[object, ...]]:
    columns = {column.name: column for column in schema.fields}
    return [(columns[name].id, name, columns[name].type) for name in names]


def _option(schema: TableSchema, name: str) -> str:
    text = schema.options.get(name, _DEFAULTS.get(name, "")).strip()
    return text.lower() if _DEFAULTS.get(name, "").islower() else text
