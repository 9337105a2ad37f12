"""Projection: decode the few wanted fields of each Avro record, and skip the rest.

Most of a manifest is column statistics, which maintenance does not need. For each pair of a writer's schema and wanted
fields, this module writes a Python function that knows the layout. It compiles the function once and caches it. The
function reads twice as many entries per second as a general reader, and needs no compiled package. For records that
look alike, `patterns` is twice as fast again.

Records become tuples in the order of the wanted fields; a field that the file lacks is None.

A block is valid only if it ends exactly at its last byte. So a wrong length is found before any record of the block is
used.
"""

import struct
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import AvroFile
from lakesweep.format.avro.decoder_source import BrokenRecordError, DecoderWriter, long_tail
from lakesweep.format.avro.patterns import PatternDecoder, UnusualError
from lakesweep.format.avro.schema import parse_avro_schema
from lakesweep.format.avro.wants import Want
from lakesweep.format.values.json_document import describe, parse_value, shorten

__all__ = ["Row", "Want", "compile_decoder", "project", "read_blocks", "read_rows"]

Row = tuple[Any, ...]

_SCHEMA = "the writer's schema"
_EPOCH = datetime(1970, 1, 1)


def read_rows(file: AvroFile, wants: tuple[Want, ...]) -> Iterator[Row]:
    """Decode the wanted fields of every record, block by block.

    Raises:
        FormatError: A block is damaged, or a wanted field is missing or has another type.
    """
    return chain.from_iterable(read_blocks(file, wants))


def read_blocks(file: AvroFile, wants: tuple[Want, ...]) -> Iterator[list[Row]]:
    """Decode the wanted fields of every record, like `read_rows`, and yield the rows of each block."""
    return _blocks(file, compile_decoder(file.schema_text, wants, file.path))


def _blocks(file: AvroFile, decode: Callable[[bytes, int], list[Row]]) -> Iterator[list[Row]]:
    for count, data in file.blocks():
        try:
            rows = decode(data, count)
        # IndexError: a record reaches past the end. ValueError: BrokenRecordError, or text that is not UTF-8.
        except (IndexError, ValueError, OverflowError) as error:
            found = shorten(str(error)) if isinstance(error, ValueError) else "records that reach past its end"
            raise FormatError(f"{file.path}: expected a block of {count} whole records, found {found}") from error
        yield rows


def compile_decoder(schema_text: bytes, wants: tuple[Want, ...], path: str) -> Callable[[bytes, int], list[Row]]:
    """Return a function from a decompressed block and its number of records to their rows."""
    # The path is not part of the cache key: it only serves messages, and every file has a different path.
    try:
        return _compile(schema_text, wants)
    except (FormatError, UnsupportedFormatError) as error:
        raise type(error)(f"{path}: {error}", code=error.code) from error


@lru_cache(maxsize=64)
def _compile(schema_text: bytes, wants: tuple[Want, ...]) -> Callable[[bytes, int], list[Row]]:
    root = parse_avro_schema(parse_value(schema_text, _SCHEMA), _SCHEMA)
    writer = DecoderWriter()
    want = Want("record", "record", required=True, fields=wants)
    source = writer.decoder(root, want)
    namespace: dict[str, Any] = {
        "tail": long_tail,
        "unpack_from": struct.unpack_from,
        "Broken": BrokenRecordError,
        "constants": tuple(writer.constants),
    }
    exec(compile(source, "<projection>", "exec"), namespace)
    decode: Callable[[bytes, int], list[Row]] = namespace["decode"]
    try:
        return PatternDecoder(root, want, decode)
    except UnusualError:
        return decode


def project(record: object, wants: tuple[Want, ...], path: str) -> Row:
    """Apply the projection of the generated code to an already decoded record, a dict."""
    if not isinstance(record, dict):
        raise FormatError(f"{path}: expected a record, found {describe(record)}")
    return tuple(_project_field(record.get(want.name), want, path) for want in wants)


def _project_field(value: object, want: Want, path: str) -> object:
    if value is None and not want.required:
        return None
    match want.kind:
        case "record" if isinstance(value, dict):
            return project(value, want.fields, path)
        case "records" if isinstance(value, list):
            return tuple(project(item, want.fields, path) for item in value)
        case "strings" if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        case "int" if type(value) is int:
            return value
        case "int" if isinstance(value, datetime):  # ORC has times where Avro has milliseconds
            return (value.replace(tzinfo=None) - _EPOCH) // timedelta(milliseconds=1)
        case "natural" if type(value) is int and value >= 0:
            return None
        case "bytes" if isinstance(value, bytes):
            return value
        case "string" if isinstance(value, str):
            return value
        case "any":
            return value
    raise FormatError(f"{path}: expected {want.kind} in {want.name}, found {describe(value)}")
