"""The columns of new data files, at every depth: pypaimon reads no others than those that Java writes."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing.options import writing_of
from lakesweep.operations.writing.parquet import parquet_files

INNER = {
    "type": "ROW",
    "fields": [
        {"id": 2, "name": "a", "type": "INT NOT NULL"},
        {"id": 3, "name": "b", "type": {"type": "ARRAY", "element": "STRING NOT NULL"}},
    ],
}
NESTED = {"type": "ARRAY", "element": {"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}}
MAP = {"type": "MAP", "key": "STRING", "value": {"type": "MAP", "key": "INT NOT NULL", "value": "DOUBLE NOT NULL"}}
BAG = {"type": "MULTISET", "element": "STRING"}
OF_JAVA = """
required group field_id=-1 schema {
  optional group field_id=1 c1 {
    required int32 field_id=2 a;
    optional group field_id=3 b (List) {
      repeated group field_id=-1 list {
        required binary field_id=536873984 element (String);
      }
    }
  }
  optional group field_id=9 c9 (List) {
    repeated group field_id=-1 list {
      required group field_id=536880128 element (List) {
        repeated group field_id=-1 list {
          required int32 field_id=536880129 element;
        }
      }
    }
  }
  optional group field_id=10 c10 (Map) {
    repeated group field_id=-1 key_value {
      required binary field_id=536860670 key (String);
      optional group field_id=536881152 value (Map) {
        repeated group field_id=-1 key_value {
          required int32 field_id=536860669 key;
          required double field_id=536881153 value;
        }
      }
    }
  }
  optional group field_id=11 c11 (Map) {
    repeated group field_id=-1 key_value {
      required binary field_id=536859646 key (String);
      required int32 field_id=536882176 value;
    }
  }
}
"""
"""Read from a file of Paimon 1.4, but for the names of the root and of the entries of maps."""


def files_of(columns: dict[int, tuple[Any, Sequence[Any]]]) -> list[Any]:
    """Write columns by their ids, two rows in a row group, and return each file."""
    fields = [DataField(each, f"c{each}", parse_data_type(type_, "a test")) for each, (type_, _) in columns.items()]
    arrays = [pa.array(columns[field.id][1], arrow_type(field.type)) for field in fields]
    batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
    schema = TableSchema(0, 3, tuple(fields), (), (), {}, 0, None)
    parts = [batch.slice(first, 2) for first in range(0, batch.num_rows, 2)]
    return [
        parquet.ParquetFile(pa.BufferReader(each.body))
        for each in parquet_files(parts, fields, writing_of(schema, fields))
    ]


def test_nested_columns_are_those_of_java() -> None:
    values: dict[int, tuple[Any, Sequence[Any]]] = {
        1: (INNER, [None, {"a": 1, "b": None}, None, {"a": 2, "b": ["x", "y"]}]),
        9: (NESTED, [[[1], []], None, [], [[2, 3]]]),
        10: (MAP, [[("a", [(1, 1.5)])], None, [("b", None)], []]),
        11: (BAG, [[("a", 1)], None, [], [("b", 2), ("c", 3)]]),
    }
    (file,) = files_of(values)
    assert str(file.schema).split("\n", 1)[1].strip() == OF_JAVA.strip()
    found = file.read()
    found.validate(full=True)
    assert found.to_pydict() == {f"c{each}": list(rows) for each, (_, rows) in values.items()}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (INNER, {"a": None, "b": []}),
        (INNER, {"a": 1, "b": ["x", None]}),
        (NESTED, [[1], None]),
        (NESTED, [[None]]),
        (MAP, [("a", [(1, None)])]),
    ],
)
def test_null_within_a_column_that_may_not_have_it(type_: Any, value: Any) -> None:
    with pytest.raises(RefusedError, match="column c1 may not be null") as error:
        files_of({1: (type_, [None, None, value])})
    assert error.value.code == "null_value"
