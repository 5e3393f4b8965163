"""What all text formats have in common: lines."""

import gzip

import pyarrow as pa
import pytest

from movement.samples import HEADER, write
from trajcloak.errors import InputError
from trajcloak.movement import text_formats
from trajcloak.movement.movement_source import MovementSource
from trajcloak.movement.text_formats import read_brinkhoff_points

CABS = [f"45.5 -93.5 0 {1500000087 - second}" for second in range(4)]
PLTS = [f"48.5,11.25,0,492,42000.1,2014-12-27,05:47:0{second}" for second in range(4)]
POINTS = [f"point\t{user}\t1\t0\t5\t1.5\t2.5\t3.5\t4\t5" for user in range(4)]

FORMATS = pytest.mark.parametrize(
    ("name", "header", "lines"),
    [
        ("run.txt", [], POINTS),
        ("1/Trajectory/a.plt", HEADER, PLTS),
        ("new_a.txt", [], CABS),
    ],
    ids=["brinkhoff", "geolife", "cabs"],
)


def choose(name: str) -> dict[str, str]:
    return {"format": "brinkhoff"} if name == "run.txt" else {}


@FORMATS
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\t \r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(convert, tmp_path, name, header, lines, end, bom, last):
    content = bom + end.join([*header, *lines]) + (end if last else "")
    done = convert(write(tmp_path / name, content.encode()), **choose(name))
    assert done.log.rows == 4
    assert done.log.skipped == {}


@FORMATS
@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_blank_lines(convert, tmp_path, name, header, lines, blank):
    spread = [line for pair in zip(lines, [blank] * 4, strict=True) for line in pair]
    done = convert(write(tmp_path / name, "\n".join([*header, *spread, blank])), **choose(name))
    assert done.log.rows == 4
    assert done.log.skipped == {}


@FORMATS
def test_a_last_line_that_was_cut_off_is_skipped_and_counted(
    convert, tmp_path, name, header, lines
):
    content = "\n".join([*header, *lines])
    done = convert(write(tmp_path / name, content[:-10]), **choose(name))
    assert done.log.rows == 3
    assert done.log.skipped == {"cut_off": 1}


@FORMATS
def test_a_bad_last_line_that_is_whole_is_an_error(refuse, tmp_path, name, header, lines):
    content = "\n".join([*header, *lines])[:-10] + "\n"
    message = refuse(write(tmp_path / name, content), **choose(name))
    assert f": line {len(header) + 4}: has " in message


@FORMATS
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [1, 7, 64, 200])
def test_blocks_do_not_show(tmp_path, monkeypatch, name, header, lines, end, block, convert):
    whole = convert(write(tmp_path / name, end.join([*header, *lines]).encode()), **choose(name))
    (tmp_path / "converted.parquet").unlink()
    monkeypatch.setattr(text_formats, "BLOCK_BYTES", block)
    assert convert(tmp_path / name, **choose(name)) == whole


@FORMATS
@pytest.mark.parametrize("block", [5, 100, 1 << 20])
@pytest.mark.parametrize("bad", range(4))
def test_the_first_bad_line_is_named(
    refuse, tmp_path, monkeypatch, name, header, lines, block, bad
):
    monkeypatch.setattr(text_formats, "BLOCK_BYTES", block)
    lines = [*lines[:bad], "nonsense", "", *lines[bad:], "nonsense"]
    message = refuse(write(tmp_path / name, "\n".join([*header, *lines, ""])), **choose(name))
    assert f": line {len(header) + bad + 1}: has 1 fields; expected " in message


def test_many_rows_come_in_many_batches_and_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_formats, "BLOCK_BYTES", 1 << 14)
    file = write(tmp_path / "run.txt", "".join(line + "\n" for line in POINTS * 10_000))
    sizes, held = [], []
    before = pa.total_allocated_bytes()
    for batch in read_brinkhoff_points(MovementSource([file])):
        sizes.append(batch.num_rows)
        held.append(pa.total_allocated_bytes() - before)
    assert sum(sizes) == 40_000
    assert len(sizes) > 50
    assert max(sizes) < 1_000
    assert max(held) < 1 << 18


def test_a_line_without_end(refuse, tmp_path, monkeypatch):
    monkeypatch.setattr(text_formats, "BLOCK_BYTES", 1 << 16)
    file = write(tmp_path / "run.txt.gz", POINTS[0] + "\n" + "x" * 1_000_000)
    assert "line 2 is longer than 65,536 bytes" in refuse(file, format="brinkhoff")


@pytest.mark.parametrize(
    "content", [b"\x00" * 100 + b"\n", b"\xff\xfe\n", b"po\xffnt" + b"\t1" * 9 + b"\n"]
)
def test_what_is_no_text(refuse, tmp_path, content):
    assert "line 1: " in refuse(write(tmp_path / "run.txt", content), format="brinkhoff")


@pytest.mark.parametrize("content", ["", "\n", " \r\n\r\n", "\ufeff"])
def test_no_points(refuse, tmp_path, content):
    message = refuse(write(tmp_path / "run.txt", content), format="brinkhoff")
    assert "no points found in 1 files; expected at least one (skipped: none)" in message


def test_nothing_but_a_cut_off_line(refuse, tmp_path):
    message = refuse(write(tmp_path / "run.txt", "point\t1"), format="brinkhoff")
    assert "(skipped: cut off: 1)" in message


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-12], lambda data: b"no gzip", lambda data: data[:20] + b"x" * 20]
)
def test_a_damaged_compressed_file(tmp_path, damage):
    file = tmp_path / "run.txt.gz"
    file.write_bytes(damage(gzip.compress("\n".join(POINTS * 100).encode())))
    with pytest.raises(InputError, match="cannot be read to its end; expected a whole file"):
        list(read_brinkhoff_points(MovementSource([file])))
