"""Metadata files: manifests, manifest lists and index manifests, in any container format.

The first bytes show the container format; the name does not.
"""

from collections.abc import Iterator

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro import container as avro
from lakesweep.format.avro import projection
from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.orc import process as orc
from lakesweep.format.orc.frame import MAGIC as ORC_MAGIC
from lakesweep.format.values.json_document import describe

PARQUET_MAGIC = b"PAR1"


def read_rows(body: bytes, path: str, wants: tuple[Want, ...], expected_size: int | None) -> Iterator[Row]:
    """Decode the wanted fields of every record.

    The frame is checked before this returns. Records are decoded on demand.

    Args:
        body: The whole file.
        path: The path for messages.
        wants: The fields.
        expected_size: The size that other metadata records for this file. A file that was cut between two blocks looks
            complete, so pass the size whenever it is known.

    Raises:
        FormatError: The file is damaged.
        UnsupportedFormatError: Only a later version or an additional package can read the file.
    """
    check_size(body, path, expected_size)
    if body.startswith(avro.MAGIC):
        return projection.read_rows(avro.read_container(body, path), wants)
    if body.startswith(ORC_MAGIC):
        return orc.read_rows(body, path, wants)
    if body.startswith(PARQUET_MAGIC):
        raise UnsupportedFormatError(
            f"{path}: expected an Avro or ORC file, found Parquet", code="unsupported_container"
        )
    found = describe(repr(body[:8]))
    raise FormatError(f"{path}: expected an Avro or ORC file, found {len(body)} bytes that begin {found}")


def read_avro(body: bytes, path: str, expected_size: int | None) -> avro.AvroFile:
    """Read the frame of a file whose records are to be copied, which only Avro allows.

    Raises:
        FormatError: The file is damaged.
        UnsupportedFormatError: It is a file of another container format, with the code `manifest_format`.
    """
    check_size(body, path, expected_size)
    for name, magic in (("ORC", ORC_MAGIC), ("Parquet", PARQUET_MAGIC)):
        if body.startswith(magic):
            raise UnsupportedFormatError(
                f"{path}: expected an Avro file, whose records can be copied, found {name}", code="manifest_format"
            )
    return avro.read_container(body, path)


def check_size(body: bytes, path: str, expected_size: int | None) -> None:
    """Refuse a file of another size than other metadata records."""
    if expected_size is not None and len(body) != expected_size:
        raise FormatError(f"{path}: expected {expected_size} bytes, as recorded in the metadata, found {len(body)}")


def check_version(version: int, expected: int, path: str) -> None:
    """Refuse entries of another version, since their fields may have another meaning."""
    if version != expected:
        raise UnsupportedFormatError(
            f"{path}: expected entries of version {expected}, found version {version}", code="unsupported_version"
        )
