"""ORC manifests: the rows of an Avro manifest, from another container."""

import io
import subprocess
import sys
from typing import Any

import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format import orc, orc_frame
from lakesweep.format.index_manifest import read_index_manifest
from lakesweep.format.manifest import read_manifest
from lakesweep.format.manifest_list import read_manifest_list

from .samples import NEW_MANIFEST, avro_file, index_record, index_schema, list_record, manifest_record

COMPRESSIONS = ["zstd", "zlib", "uncompressed", "snappy", "lz4"]


def orc_file(records: list[Any], compression: str = "zstd") -> bytes:
    arrow, arrow_orc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.orc")
    body = io.BytesIO()
    arrow_orc.write_table(arrow.Table.from_pylist(records), body, compression=compression)
    return body.getvalue()


def stamped(**file: Any) -> dict[str, Any]:
    """An entry without empty arrays, whose type pyarrow could not infer."""
    stats = {"_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": [0]}
    return manifest_record(**{"_KEY_STATS": stats, "_VALUE_STATS": stats, "_EXTRA_FILES": ["x.index"], **file})


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_equal_to_avro(compression: str) -> None:
    records = [stamped(name=f"data-{number}-0.parquet", kind=number % 2, _BUCKET=number) for number in range(20)]
    assert list(read_manifest(orc_file(records, compression), "m")) == list(
        read_manifest(avro_file(NEW_MANIFEST, records), "m")
    )


def test_lists_and_index_manifests() -> None:
    (meta,) = read_manifest_list(orc_file([list_record()]), "l")
    assert (meta.file_name, meta.partition_min, meta.extra_files, meta.min_bucket) == ("manifest-1-0", b"min", (), None)
    records = [index_record(), index_record("index-1-1", _DELETIONS_VECTORS_RANGES=None)]
    assert read_index_manifest(orc_file(records), "i") == read_index_manifest(avro_file(index_schema(), records), "i")


def test_several_stripes() -> None:
    arrow, arrow_orc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.orc")
    body = io.BytesIO()
    records = [stamped(name=f"data-{number}-{'x' * 200}") for number in range(2000)]
    table = arrow.Table.from_pylist(records)
    with arrow_orc.ORCWriter(body, stripe_size=1024, batch_size=100) as writer:
        for start in range(0, 2000, 500):
            writer.write(table.slice(start, 500))
    assert arrow_orc.ORCFile(arrow.BufferReader(body.getvalue())).nstripes > 1
    assert [found.file_name for found in read_manifest(body.getvalue(), "m")] == [
        record["_FILE"]["_FILE_NAME"] for record in records
    ]


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker refuses the table and says what to install; it does not take the file for damaged."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.orc", None)
    with pytest.raises(UnsupportedFormatError, match=r"pip install 'lakesweep\[orc\]'") as raised:
        read_manifest(b"ORC...", "m")
    assert raised.value.code == "orc_needs_pyarrow"


def test_without_a_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    body = orc_file([stamped()])

    class Arrow:
        BufferReader = bytes

        @staticmethod
        def ORCFile(source: object) -> object:
            raise OSError("Time zone file /usr/share/zoneinfo/UTC does not exist. Please set TZDIR")

    monkeypatch.setattr(orc, "_pyarrow", lambda path: (Arrow, Arrow))
    with pytest.raises(UnsupportedFormatError, match="time zone database") as raised:
        read_manifest(body, "m")
    assert raised.value.code == "orc_needs_time_zones"


def test_names_are_checked_here_too() -> None:
    with pytest.raises(FormatError, match="expected a plain file name"):
        list(read_manifest(orc_file([stamped(name="../x")]), "m"))
    with pytest.raises(FormatError, match="expected int in _KIND, found"):
        list(read_manifest(orc_file([stamped() | {"_KIND": "x"}]), "m"))
    with pytest.raises(FormatError, match="expected record in _FILE, found"):
        list(read_manifest(orc_file([stamped() | {"_FILE": None}, stamped()]), "m"))


def damage(body: bytes) -> None:
    """Read the file cut at every byte and with flipped bits everywhere; only expected errors may come out."""
    whole = list(read_manifest(body, "m"))
    changed = [body[:end] for end in range(3, len(body))]
    for position in range(3, len(body)):
        flipped = bytearray(body)
        flipped[position] ^= 1 << position % 8
        changed.append(bytes(flipped))
    for damaged in changed:
        try:
            found = list(read_manifest(damaged, "m"))
            assert len(found) == len(whole)
        except (FormatError, UnsupportedFormatError) as error:
            assert str(error).startswith("m: ")


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage(compression: str) -> None:
    """In a process of its own: without the check of the frame, pyarrow 19 takes the whole process with it."""
    body = orc_file([stamped()], compression)
    code = f"from tests.unit.format.test_orc import damage; damage({body!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(path for path in sys.path)})


@pytest.mark.parametrize("compression", ["snappy", "lz4"])
def test_no_memory_is_asked_for_an_absurd_chunk_size(compression: str) -> None:
    """Found by fuzzing: pyarrow took it at its word, and the process ended."""
    body = orc_file([stamped()], compression)
    tail = body[-1 - body[-1] : -1]
    assert tail.count(b"\x18\x80\x80\x04") == 1, "65 536 in the field 3"
    absurd = tail.replace(b"\x18\x80\x80\x04", b"\x18" + b"\xff" * 8 + b"\x51")
    damaged = body[: -1 - len(tail)] + absurd + bytes((len(absurd),))
    with pytest.raises(FormatError, match="compression chunks of"):
        orc_frame.check_frame(damaged, "m")


def test_a_frame_without_pyarrow() -> None:
    """The frame is judged by our own code."""
    body = orc_file([stamped()])
    orc_frame.check_frame(body, "m")
    for damaged in (b"ORC", b"ORC" + bytes(50), body[:-1], body + b"\0", body[:-30] + body[-1:], b"ORC" * 100):
        with pytest.raises(FormatError, match=r"^m: expected a whole ORC file"):
            orc_frame.check_frame(damaged, "m")
