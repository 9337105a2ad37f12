"""Data files that are not merged: of other formats, and older than the deletion vectors of the table."""

from dataclasses import replace

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.keyed import KeyedFile
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.keyed.rules.files import check_files

ON, OFF = {"deletion-vectors.enabled": "true"}, {"deletion-vectors.enabled": "False"}


def file(name: str, level: int, low: int, high: int, schema_id: int = 0, format_: str = "parquet") -> KeyedFile:
    own = ReadFile(f"bucket-0/{name}.{format_}", 1, 1, format_, schema_id, level, 0, b"", None)
    return KeyedFile(own, (low,), (high,), 1, 0, 1)


def check(*files: KeyedFile, options: tuple[dict[str, str], ...], full: bool = False, has_vectors: bool = True) -> None:
    field = DataField(0, "id", parse_data_type("INT NOT NULL", "id"))
    first = TableSchema(0, 3, (field,), (), ("id",), {}, 0, None)
    schemas = [replace(first, id=number, options=each) for number, each in enumerate(options)]
    check_files(files, schemas, has_vectors=has_vectors, full=full)


@pytest.mark.parametrize("full", [True, False])
def test_a_file_of_another_format(full: bool) -> None:
    """Its format is that of the schema with which it was written."""
    with pytest.raises(
        RefusedError, match=r"data files in Parquet, found bucket-0/b\.orc,.* \(CALL sys\.compact\)"
    ) as it:
        check(file("a", 0, 1, 2), file("b", 5, 1, 2, format_="orc"), options=(ON,), full=full)
    assert it.value.code == "unsupported_file_format"


@pytest.mark.parametrize("options", [(OFF, ON), ({}, ON), (ON, OFF, ON)])
def test_files_that_are_older_than_the_vectors(options: tuple[dict[str, str], ...]) -> None:
    now, before = len(options) - 1, len(options) - 2
    upper, lower = file("a", 4, 1, 5, now), file("b", 5, 5, 9, before)
    with pytest.raises(
        RefusedError, match=r"bucket-0/b\.parquet of level 5, written with schema \d, overlaps"
    ) as caught:
        check(upper, lower, options=options)
    assert caught.value.code == "vectors_switched"
    stated = options[before].get("deletion-vectors.enabled", "false")
    assert f"enabled is '{stated}' in schema {before} and true now" in str(caught.value)
    with pytest.raises(RefusedError, match="of level 5, written with schema 0"):
        check(upper, file("b", 5, 5, 9, 0), options=options)
    for allowed in ([upper], [lower], [file("c", 0, 1, 9, before), lower], [upper, file("b", 5, 6, 9, before)]):
        check(*allowed, options=options)
    check(upper, lower, options=options, full=True)
    check(upper, lower._replace(file=lower.file._replace(schema_id=now)), options=options)


def test_tables_whose_vectors_were_always_on_or_are_off() -> None:
    check(file("a", 4, 1, 5), file("b", 5, 1, 5), options=(ON, ON))
    check(file("a", 4, 1, 5), file("b", 5, 1, 5), options=(ON, OFF), has_vectors=False)
