"""Specs name partitions exactly, whatever characters their values have."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import RefusedError
from lakesweep.format.values.data_type import DataType, parse_data_type
from lakesweep.format.values.partition_path import DEFAULT_NAME, escape, partition_path
from lakesweep.model.partitions.names import partition_name, value_name
from lakesweep.model.partitions.spec import PartitionSpec, matcher, matcher_of_alike, parse_specs, refuse_ambiguous

TEXT = parse_data_type("STRING", "schema")
INT = parse_data_type("INT", "schema")
KEYS = ("dt", "hr")
TYPES = (TEXT, INT)


def specs(*arguments: object, keys: Sequence[str] = KEYS, types: Sequence[DataType] = TYPES) -> list[PartitionSpec]:
    return list(parse_specs(arguments, keys, types))


def one(argument: object, *types: DataType) -> PartitionSpec:
    keys = KEYS if not types else tuple(f"k{at}" for at in range(len(types)))
    (spec,) = parse_specs([argument], keys, types or TYPES)
    return spec


def refusal(*arguments: object) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        specs(*arguments)
    assert len(str(caught.value)) < 600
    return caught.value


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("dt=20240101,hr=08", (("dt", "20240101"), ("hr", 8))),
        ("dt=20240101/hr=08", (("dt", "20240101"), ("hr", 8))),
        ("dt=20240101/hr=08/", (("dt", "20240101"), ("hr", 8))),
        ("hr=8,dt=20240101", (("dt", "20240101"), ("hr", 8))),
        ("dt=20240101", (("dt", "20240101"),)),
        ("dt=", (("dt", ""),)),
        ("dt=a ", (("dt", "a "),)),
        ("dt=a%2Cb%2fc%3D%25", (("dt", "a,b/c=%"),)),
        ("dt=$\\\n", (("dt", "$\\\n"),)),
        ("dt=%E6%97%A5\u65e5", (("dt", "\u65e5\u65e5"),)),
        (f"dt={DEFAULT_NAME}", (("dt", None),)),
        ({"dt": "20240101", "hr": 8}, (("dt", "20240101"), ("hr", 8))),
        ({"hr": None}, (("hr", None),)),
        ({"dt": DEFAULT_NAME}, (("dt", None),)),
        ({"dt": "a,b/c=%2C"}, (("dt", "a,b/c=%2C"),)),
    ],
)
def test_forms(argument: object, values: tuple[tuple[str, object], ...]) -> None:
    """The order of the keys is the table's; JSON needs no escapes."""
    spec = one(argument)
    assert spec.values == values
    assert spec.is_whole == (len(values) == 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no partition is named"),
        (("",), "without any key"),
        (("/",), "without any key"),
        (({},), "without any key"),
        (("day=1",), "expected dt, hr"),
        (("dt=1, hr=2",), "' hr' is no partition key"),
        (("DT=1",), "is no partition key"),
        (("dt=1,dt=1",), "given twice"),
        (("dt",), "expected key=value"),
        (("dt=1,",), "expected key=value"),
        (("dt=a=b",), "%3D"),
        (("dt=1//hr=2",), "expected key=value"),
        (("dt=100%",), "%25"),
        (("dt=%2",), "%25"),
        (("dt=%zz",), "%25"),
        (("dt=%FF",), "UTF-8"),
        (("dt=\ud800",), "Unicode"),
        (("hr=x",), "partition key hr"),
        (("hr=2147483648",), "32 bits"),
        (({"hr": True},), "a text of a INT"),
        (({"dt": 20240101},), "a text of a VARCHAR"),
        (({"hr": [1]},), "partition key hr"),
        ((7,), "expected a text or an object"),
        ((["dt=1"],), "expected a text or an object"),
        (("dt=1",) * 10_001, "at most 10000"),
        (("dt=" + "x" * (9 << 20),), "characters"),
        (({"dt": "x" * (9 << 20)},), "characters"),
    ],
    ids=lambda each: None if not isinstance(each, str) else each,
)
def test_refusals(arguments: tuple[object, ...], says: str) -> None:
    """Nothing is guessed, for the answer is a deletion."""
    error = refusal(*arguments)
    assert error.code == "bad_partition" and says in str(error)


def test_a_table_without_partition_keys() -> None:
    """It can only be truncated."""
    with pytest.raises(RefusedError) as caught:
        parse_specs(["dt=1"], (), ())
    assert caught.value.code == "not_partitioned"


def test_the_text_for_null_is_an_option() -> None:
    """Another text is then a text."""
    (spec,) = parse_specs(["dt=none"], KEYS, TYPES, "none")
    assert spec.values == (("dt", None),)
    (spec,) = parse_specs([f"dt={DEFAULT_NAME}"], KEYS, TYPES, "none")
    assert spec.values == (("dt", DEFAULT_NAME),)


def test_equal_specs_count_once() -> None:
    """However they are written."""
    found = specs("dt=1,hr=08", {"hr": 8, "dt": "1"}, "dt=1")
    assert [len(each.values) for each in found] == [2, 1]


def test_matching() -> None:
    """A spec without all keys means each partition with its values; null equals null alone."""
    whole, part, null = specs("dt=a,hr=8", "hr=9", {"dt": None})
    rows = [("a", 8), ("a", 9), ("b", 9), (None, 8), ("", 8), ("a ", 8), (DEFAULT_NAME, 8), ("A", 8)]
    assert [row for row in rows if whole.matches(row)] == [("a", 8)]
    assert [row for row in rows if part.matches(row)] == [("a", 9), ("b", 9)]
    assert [row for row in rows if null.matches(row)] == [(None, 8)]
    any_of = matcher((whole, part, null))
    assert [row for row in rows if any_of(row)] == [("a", 8), ("a", 9), ("b", 9), (None, 8)]


_VALUES = st.one_of(
    st.none(), st.sampled_from(["", " ", "us", "us,ca", "a=b", "a/b", "%2C", "\n", "$0", "\\", "us,", "0"]), st.text()
)
_HOURS = st.one_of(st.none(), st.integers(-(1 << 31), (1 << 31) - 1))


@given(st.lists(st.tuples(_VALUES, _HOURS), min_size=1, max_size=8, unique=True), st.data())
def test_a_name_means_its_partition_and_no_other(
    rows: list[tuple[str | None, int | None]], data: st.DataObject
) -> None:
    """The names of reports lead back to the same partition, also through JSON."""
    row = data.draw(st.sampled_from(rows))
    for argument in (partition_name(KEYS, TYPES, row), dict(zip(KEYS, row, strict=True))):
        spec = one(argument)
        wanted = (None if row[0] == DEFAULT_NAME else row[0], row[1])
        assert [each for each in rows if spec.matches(each)] == ([wanted] if wanted in rows else [])


@pytest.mark.parametrize(
    ("type_", "value", "name"),
    [
        ("STRING", "a,b/c=d%\n", "k0=a%2Cb%2Fc%3Dd%25%0A"),
        ("STRING", None, f"k0={DEFAULT_NAME}"),
        ("STRING", "", "k0="),
        ("DATE", 19723, "k0=2024-01-01"),
        ("BOOLEAN", True, "k0=true"),
        ("DOUBLE", 1.5, "k0=1.5"),
    ],
)
def test_names(type_: str, value: object, name: str) -> None:
    """A name tells null from an empty text, which share a directory."""
    found = parse_data_type(type_, "schema")
    assert partition_name(("k0",), (found,), (value,)) == name
    assert one(name, found).matches((value,))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("TIMESTAMP(3)", "2024-01-01 08:30:00"),
        ("TIMESTAMP(9)", "2024-01-01 08:30:00.000000001"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01T08:30:00Z"),
        ("TIME(3)", "08:30:00"),
        ("DECIMAL(20, 2)", "123456789012345678.25"),
        ("FLOAT", "0.1"),
    ],
)
def test_names_of_other_types_are_read_again(type_: str, text: str) -> None:
    """Whatever the form that a person gave."""
    found = parse_data_type(type_, "schema")
    spec = one({"k0": text}, found)
    assert one(partition_name(("k0",), (found,), (spec.values[0][1],)), found) == spec


def test_bytes_have_a_name_but_cannot_be_given() -> None:
    """Their directories have names that only the writer knows."""
    found = parse_data_type("BYTES", "schema")
    assert value_name(b"\x00\xff", found) == "0x00ff"
    with pytest.raises(RefusedError):
        one("k0=0x00ff", found)
    assert one({"k0": None}, found).matches((None,))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_partition_path_is_a_spec(value: str) -> None:
    """If the path is not the one that null and blank texts share, and no comma separates two keys."""
    path = partition_path(("k0",), (TEXT,), (value,))
    if path != f"k0={DEFAULT_NAME}/" and "," not in value:
        assert path == f"k0={escape(value)}/"
        assert one(path, TEXT).matches((value,))


def test_a_value_of_a_megabyte() -> None:
    """It is read, compared and refused without filling a screen."""
    value = "x," + "x" * (1 << 20)
    spec = one({"dt": value})
    assert spec.matches((value, 1)) and not spec.matches((value + "x", 1))
    assert len(str(spec)) < 300
    assert one(partition_name(("dt",), (TEXT,), (value,)).replace("dt", "k0"), TEXT).matches((value,))


# --- null beside its own name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "rows", "is_refused"),
    [
        (f"dt={DEFAULT_NAME}", [(None, 1), (DEFAULT_NAME, 2)], True),
        ({"dt": None}, [(DEFAULT_NAME, 1), (None, 1)], True),
        ({"dt": None, "hr": 1}, [(None, 1), (DEFAULT_NAME, 2)], False),
        ({"dt": None, "hr": 1}, [(None, 1), (DEFAULT_NAME, 1)], True),
        ({"dt": None}, [(None, 1), (None, 2)], False),
        ({"dt": None}, [(DEFAULT_NAME, 1), (DEFAULT_NAME, 2)], False),
        ({"hr": None}, [(None, None), (DEFAULT_NAME, None)], False),
        ({"dt": "a"}, [(None, 1), (DEFAULT_NAME, 1), ("a", 1)], False),
    ],
)
def test_null_beside_its_name(argument: object, rows: list[tuple[object, ...]], is_refused: bool) -> None:
    """Both have one directory and one name, so a person may mean either."""
    found = specs(argument)
    sees = matcher_of_alike(found, TYPES)
    assert all(sees(row) for row in rows if any(each.matches(row) for each in found))
    assert not sees(("other", 7))
    # What the test lets through is enough to notice that two look alike.
    rows = [row for row in rows if sees(row)]
    if not is_refused:
        refuse_ambiguous(found, iter(rows), KEYS, TYPES)
        return
    with pytest.raises(RefusedError) as caught:
        refuse_ambiguous(found, iter(rows), KEYS, TYPES)
    assert caught.value.code == "ambiguous_partition" and DEFAULT_NAME in str(caught.value)


def test_many_specs_and_partitions() -> None:
    """A partition costs one lookup for each set of keys, however many specs there are."""
    any_of = matcher(specs(*(f"dt={at}" for at in range(5000)), *(f"hr={at}" for at in range(5000, 10_000))))
    started = time.process_time()
    found = sum(any_of((str(at), at)) for at in range(100_000))
    assert found == 10_000
    assert time.process_time() - started < 2
