"""How a table's options want its manifests written. Source: Paimon `CoreOptions`, `AvroFileFormat`."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.avro.container_writer import codec_of
from lakesweep.format.values.options import parse_int, parse_memory_bytes

_TARGET = ("manifest.target-file-size", "8 MB")
_COMPRESSION = ("manifest.compression", "zstd")
_LEVEL = ("file.compression.zstd-level", "1")


@dataclass(frozen=True, slots=True)
class Manifests:
    """How a table's manifests are written."""

    codec: str
    level: int | None
    """Of Zstandard; `None`: the default of another codec, for which no option states a level."""
    target_bytes: int


def manifests_of(options: Mapping[str, str]) -> Manifests:
    """Return how a table's manifests are written.

    Raises:
        RefusedError: An option does not parse, or names a codec that no reader of Avro has.
    """
    try:
        codec = codec_of(options.get(*_COMPRESSION))
        target_bytes = parse_memory_bytes(options.get(*_TARGET), _TARGET[0])
        level = parse_int(options.get(*_LEVEL), _LEVEL[0])
        return Manifests(codec, level if codec == "zstandard" else None, max(target_bytes, 1))
    except FormatError as error:
        raise RefusedError(str(error), code=error.code) from error
