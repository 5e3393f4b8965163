"""XML that is damaged or malicious."""

import tracemalloc
from pathlib import Path

import pytest

from movement.samples import fcd, gpx, trkpt, write
from trajcloak import xml_files
from trajcloak.movement import xml_formats
from trajcloak.movement.movement_source import MovementSource
from trajcloak.movement.xml_formats import read_gpx_points, read_sumo_points

NOON = "2024-05-06T12:00:00Z"
VEHICLE = '<vehicle id="v" x="1" y="2"/>'
LAUGHS = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">'

NUM_FRAMES = 8
"""More calls than there are between the reader and what allocates for it."""

FILES = pytest.mark.parametrize(
    ("name", "text"),
    [("a.xml", fcd(("0", VEHICLE))), ("a.gpx", gpx(trkpt(1, 2, NOON)))],
    ids=["sumo", "gpx"],
)


@FILES
@pytest.mark.parametrize(
    "doctype",
    [
        f"<!DOCTYPE x [{LAUGHS}]>",
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "http://localhost/">]>',
        "<!DOCTYPE x>",
    ],
)
def test_a_document_type_is_refused(refuse, tmp_path, name, text, doctype):
    head, _, rest = text.partition("\n")
    message = refuse(write(tmp_path / name, f"{head}\n{doctype}\n{rest}"))
    assert f"{name}: line 2: a document type is declared" in message


@FILES
@pytest.mark.parametrize(
    "encoding",
    ["UTF-7", "utf_7", "UTF-32", "cp037", "GB18030", "shift_jis", "rot13", "idna", "zlib", "none"],
)
def test_encodings_that_are_not_read(refuse, tmp_path, name, text, encoding):
    _, _, rest = text.partition("\n")
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    message = refuse(write(tmp_path / name, f"{head}\n{rest}"))
    assert f"{name}: line 1: the text has an encoding that is not read; expected UTF-8" in message


@FILES
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "iso-8859-15", "windows-1252"])
def test_encodings_that_are_read(convert, tmp_path, name, text, encoding):
    _, _, rest = text.partition("\n")
    head = f'<?xml version="1.0" encoding="{encoding.replace("6-le", "6LE")}"?>'
    (tmp_path / name).write_bytes(f"{head}\n{rest}".encode(encoding))
    assert convert(tmp_path / name).table.num_rows == 1


@FILES
def test_an_entity_that_is_not_declared(refuse, tmp_path, name, text):
    message = refuse(write(tmp_path / name, text.replace("2", "&two;")))
    assert "not well-formed XML" in message


@FILES
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_file_that_was_cut_off(refuse, tmp_path, name, text, part):
    message = refuse(write(tmp_path / name, text[: int(part * len(text))]))
    assert "not well-formed XML" in message
    assert "the file is damaged or cut off" in message


@FILES
def test_an_empty_file(refuse, tmp_path, name, text):
    assert "line 1: not well-formed XML (no element found)" in refuse(write(tmp_path / name, ""))


@FILES
def test_another_root(refuse, tmp_path, name, text):
    other = {"a.xml": "b.gpx", "a.gpx": "b.xml"}[name]
    message = refuse(write(tmp_path / other, text))
    assert "line 2: the first element is not <" in message
    assert message.endswith("expected a file of this format; pass another format=")


def test_deep_nesting_is_refused(refuse, tmp_path):
    file = write(tmp_path / "a.xml", "<fcd-export>" + "<a>" * 1_000_000)
    assert f"nested more than {xml_files.MAX_DEPTH} deep" in refuse(file)


@pytest.mark.parametrize(
    "inside",
    ["<!-- {} -->", '<vehicle id="{}"/>', "<{}/>", "<?{}?>"],
    ids=["comment", "attribute", "name", "instruction"],
)
def test_a_token_without_end_is_refused(refuse, tmp_path, inside):
    text = "<fcd-export>" + inside.format("x" * (8 * xml_files.MAX_TOKEN_BYTES)) + "</fcd-export>"
    assert "a tag or comment is longer than 1,048,576 bytes" in refuse(
        write(tmp_path / "a.xml.gz", text)
    )


def test_ever_new_names_are_refused(refuse, tmp_path):
    names = "".join(f"<a{number}/>" for number in range(50_000))
    message = refuse(write(tmp_path / "a.xml", f"<fcd-export>{names}</fcd-export>"))
    assert "more than 10,000 names of elements and attributes" in message


def test_a_text_without_end_is_refused(refuse, tmp_path):
    file = write(tmp_path / "a.gpx", gpx(trkpt(1, 2, "1" * 100_000)))
    assert "line 4: a <time> holds more than 10,000 characters" in refuse(file)


def write_many(folder, name: str, num_points: int):
    """Write a compressed file of many points, which is small on disk."""
    if name == "sumo":
        steps = ((str(time), VEHICLE * 100) for time in range(num_points // 100))
        return write(folder / f"{num_points}.xml.gz", fcd(*steps))
    times = (f"2024-05-06T{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}Z" for i in range(num_points))
    text = gpx("\n".join(trkpt(1, 2, time) for time in times))
    return write(folder / f"{num_points}.gpx.gz", text)


def read_and_measure(file: Path, read) -> tuple[list[int], int]:
    """The sizes of the batches of a file, and the most bytes that reading held between chunks.

    Bytes count only if the reader, or what it called, allocated them: other threads of the
    process allocate at the same time.
    """
    by_reader = tracemalloc.Filter(True, "*/trajcloak/movement/*", all_frames=True)
    held = []

    def measure(*_) -> None:
        traces = tracemalloc.take_snapshot().filter_traces([by_reader]).statistics("filename")
        held.append(sum(trace.size for trace in traces))

    source = MovementSource([file], progress=measure)
    tracemalloc.start(NUM_FRAMES)
    try:
        sizes = [batch.num_rows for batch in read(source)]
    finally:
        tracemalloc.stop()
    assert not source.skipped
    return sizes, max(held)


@pytest.mark.parametrize(("name", "read"), [("sumo", read_sumo_points), ("gpx", read_gpx_points)])
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, name, read):
    monkeypatch.setattr(xml_formats, "BATCH_ROWS", 500)
    monkeypatch.setattr(xml_formats, "CHUNK_BYTES", 1 << 14)
    most = []
    for num_points in (2_000, 8_000):
        sizes, held = read_and_measure(write_many(tmp_path, name, num_points), read)
        most.append(held)
        assert sum(sizes) == num_points
        assert max(sizes) < 1_000
    assert most[0] > 10_000, "nothing was measured"
    assert most[1] < 1.2 * most[0]
