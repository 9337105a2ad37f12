"""ORC manifests: the rows of an Avro manifest, from another container."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.manifest import read_index_manifest, read_manifest, read_manifest_list
from lakesweep.format.orc import frame as orc_frame
from lakesweep.format.orc import process as orc

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


def test_pyarrow_stays_out_of_this_process() -> None:
    body = orc_file([list_record()])
    code = (
        "import sys; from lakesweep.format.manifest import read_manifest_list;"
        f"read_manifest_list({body!r}, 'l'); print('pyarrow' in sys.modules)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert said.stdout == "False\n"


@pytest.fixture
def new_process() -> Iterator[None]:
    """The test changes where the process begins."""
    orc._process.end()
    yield
    orc._process.end()


@pytest.mark.usefixtures("new_process")
def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker refuses the table and says what to install; it does not take the file for damaged."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnsupportedFormatError, match=r"^m: .* pip install 'lakesweep\[orc\]'") as raised:
        read_manifest(b"ORC...", "m")
    assert raised.value.code == "orc_needs_pyarrow"


@pytest.mark.usefixtures("new_process")
def test_without_a_time_zone_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = orc_file([stamped()])
    monkeypatch.setenv("TZDIR", str(tmp_path))
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


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage(compression: str) -> None:
    """Cut, or with a bit flipped, a file is an error or as many rows, whatever that does to pyarrow."""
    body = orc_file([stamped()], compression)
    assert len(list(read_manifest(body, "m"))) == 1
    changed = [body[:end] for end in range(3, len(body), 61)]
    for position in range(3, len(body), 61):
        flipped = bytearray(body)
        flipped[position] ^= 1 << position % 8
        changed.append(bytes(flipped))
    for damaged in changed:
        try:
            assert len(list(read_manifest(damaged, "m"))) == 1
        except (FormatError, UnsupportedFormatError) as error:
            assert str(error).startswith("m: ")


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
