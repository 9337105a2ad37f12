"""Bounds on a Parquet file of an inventory, before pyarrow decodes any value of it.

A few bytes can hold gigabytes: a page of zeros, or a dictionary of long texts that each row names again. The footer
may lie about this. So Lakesweep reads the header of each page itself, in the same order as pyarrow.

Source: the Parquet format, `parquet.thrift`; the Thrift compact protocol.
"""

from itertools import islice
from typing import Any

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import MAX_NAME_BYTES

MAX_FOOTER_BYTES = 1 << 20
"""A decoded footer takes some hundred times as much memory. A file with 5 million rows has a footer of some 20 KB."""
MAX_PAGE_BYTES = 16 << 20
"""Writers begin another page after 1 MiB."""
MAX_RATIO = 500
FREE_BYTES = 16 << 20
MAX_BATCH_ROWS = 8192
BATCH_BYTES = 32 << 20
"""Memory for the values of a batch, even if each value is as long as a page."""
_VALUE_BYTES = MAX_NAME_BYTES + 8
"""The longest key in a page, with its length and a level."""
_MAX_ENTRIES = 100_000
"""Entries of one list in the footer."""
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_DICTIONARY_ENCODINGS = (2, 8)
_I32, _STRUCT = 5, 12

Fields = dict[int, Any]


def open_bounded(parquet: Any, source: Any, data: bytes, where: str) -> Any:
    """Return an open file whose footer has a sensible size.

    Raises:
        FormatError: The footer is too large.
    """
    size = int.from_bytes(data[-8:-4], "little")
    if size > MAX_FOOTER_BYTES:
        raise _too_much(where, f"a footer of at most {MAX_FOOTER_BYTES} bytes", size)
    return parquet.ParquetFile(source, thrift_container_size_limit=_MAX_ENTRIES, thrift_string_size_limit=size)


def batch_rows(file: Any, data: bytes, names: list[str], texts: list[str], where: str, parquet: Any, arrow: Any) -> int:
    """Return how many rows can be decoded at once: 8192 for files of S3.

    Args:
        file: The file from `open_bounded`.
        data: Its bytes.
        names: The columns to read.
        texts: The text columns among them.
        where: The file's location, for messages.
        parquet: The module `pyarrow.parquet`.
        arrow: The module `pyarrow`.

    Raises:
        FormatError: A page, a text or the whole file is larger than in any inventory.
    """
    metadata = file.metadata
    if metadata.num_rows > 8 * len(data):
        raise _too_much(where, f"at most 8 rows in a byte of {len(data)}", metadata.num_rows)
    left, longest = FREE_BYTES + MAX_RATIO * len(data), 1
    dictionaries: dict[int, list[str]] = {}
    """Row group -> columns."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            name = column.path_in_schema
            if name not in names:
                continue
            unpacked, shared, has_dictionary = _column(data, column, name in texts, where)
            left -= unpacked
            longest = max(longest, shared)
            if has_dictionary:
                dictionaries.setdefault(number, []).append(name)
        if left < 0:
            raise _too_much(where, f"pages that unpack to at most {MAX_RATIO} times its size", "more")
    if dictionaries:
        _check_dictionaries(data, dictionaries, texts, where, parquet, arrow)
    return int(max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // longest)))


def _column(data: bytes, column: Any, is_text: bool, where: str) -> tuple[int, int, bool]:
    """Return the bytes of all pages, the most bytes that one row can name, and whether to check a dictionary."""
    if column.num_values <= 0:
        return 0, 1, False
    position = min(at for at in (column.dictionary_page_offset, column.data_page_offset) if at is not None)
    end = position + column.total_compressed_size
    if not 0 < position <= end <= len(data):
        raise damaged(where, f"expected column {column.path_in_schema} inside the file, found it outside")
    unpacked, shared, values, dictionary, is_first = 0, 1, 0, 0, True
    while position < end and values < column.num_values:
        header, position = _page_header(data, position, where)
        kind, size, packed = header.get(1, -1), header.get(2, -1), header.get(3, -1)
        if size < 0 or packed < 0 or position + packed > end:
            raise damaged(where, f"expected pages that lie in their column, found one of {packed} bytes")
        if size > MAX_PAGE_BYTES:
            raise _too_much(where, f"pages of at most {MAX_PAGE_BYTES} bytes", size)
        position, unpacked = position + packed, unpacked + size
        if kind == _DICTIONARY:
            if not is_first:
                raise damaged(where, "expected a dictionary as the first page of its column, found it later")
            dictionary = size
        elif kind in (_DATA, _DATA_2):
            found: Fields = header.get(5 if kind == _DATA else 8, {})
            count, encoding = found.get(1, -1), found.get(2 if kind == _DATA else 4, -1)
            if count < 0:
                raise damaged(where, "expected pages that state a count of values, found one that does not")
            if is_text and encoding == _DELTA_BYTE_ARRAY:
                shared = max(shared, size)  # Each value may repeat the previous one.
            elif is_text and encoding not in _DICTIONARY_ENCODINGS and size > 4096 + count * _VALUE_BYTES:
                raise _too_much(where, f"texts of at most {MAX_NAME_BYTES} bytes", f"{count} in a page of {size} bytes")
            if is_text and dictionary and not values and encoding not in _DICTIONARY_ENCODINGS:
                shared, dictionary = max(shared, dictionary), 0  # The first row does not show this dictionary.
            values += count
        is_first = False
    if dictionary * MAX_BATCH_ROWS <= BATCH_BYTES:  # Small enough even if each row names all of it.
        return unpacked, shared, False
    return unpacked, shared, is_text


def _check_dictionaries(
    data: bytes, dictionaries: dict[int, list[str]], texts: list[str], where: str, parquet: Any, arrow: Any
) -> None:
    """Refuse a text in a dictionary that is longer than any key, since each row may name it again."""
    with parquet.ParquetFile(arrow.BufferReader(data), read_dictionary=texts) as file:
        for group, names in dictionaries.items():
            for batch in islice(file.iter_batches(1, row_groups=[group], columns=names, use_threads=False), 1):
                for column in batch.columns:
                    check_lengths(column.dictionary, f"{where}, row group {group + 1}", arrow)


def check_lengths(texts: Any, where: str, arrow: Any) -> None:
    """Refuse texts that are longer than any key.

    Raises:
        FormatError: A text is longer.
    """
    compute = arrow.compute
    longest = compute.max(compute.binary_length(texts)).as_py()
    if longest is not None and longest > MAX_NAME_BYTES:
        raise _too_much(where, f"keys and other texts of at most {MAX_NAME_BYTES} bytes", longest)


def _page_header(data: bytes, position: int, where: str) -> tuple[Fields, int]:
    try:
        return _struct(data, position, 0)
    except (IndexError, ValueError) as error:
        raise damaged(where, f"expected the header of a page at byte {position}, found none") from error


def _struct(data: bytes, position: int, depth: int) -> tuple[Fields, int]:
    """Read the 32-bit numbers and the structs of a struct. If a field is given twice, the last one counts."""
    fields: Fields = {}
    number = 0
    while data[position]:
        kind, delta = data[position] & 15, data[position] >> 4
        position += 1
        if delta:
            number += delta
        else:
            number, position = _zigzag(data, position)
        value, position = _value(data, position, kind, depth)
        if kind in (_I32, _STRUCT):
            fields[number] = value
    return fields, position + 1


def _value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:
            return None, position
        case 3:
            return None, position + 1
        case 4 | 5 | 6:
            return _zigzag(data, position)
        case 7:
            return None, position + 8
        case 8:
            size, position = _varint(data, position)
            return None, position + size
        case 12 if depth < 4:
            return _struct(data, position, depth + 1)
    raise ValueError("no field of a page's header")


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    number, position = _varint(data, position)
    return (number >> 1) ^ -(number & 1), position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= 1 << 32:
                break
            return number, position
    raise ValueError("more than 32 bits")


def damaged(where: str, what: str) -> FormatError:
    """Return the error for a damaged file of an inventory."""
    return FormatError(f"{where}: {what}", code="inventory_damaged")


def _too_much(where: str, expected: str, found: object) -> FormatError:
    return damaged(where, f"expected {expected}, found {found}; S3 writes no such file, so make a new inventory")
