"""JSON lines are read in blocks, with their types; messages name bad rows."""

import gzip
import json

import pyarrow as pa
import pytest

import trajcloak as tc
from log.dirty import zstd
from trajcloak.log import lines as log_lines
from trajcloak.log import read_in_memory
from trajcloak.log.file_columns import recognise_columns
from trajcloak.log.files import stream_batches
from trajcloak.options import LogColumns

COLUMNS = LogColumns(requests=("what",))


def records(n=50):
    return [{"user_id": f"u{i}", "time": i, "x": i / 2, "y": 1, "what": i % 3} for i in range(n)]


def write(path, lines):
    content = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
    )
    packers = {".gz": gzip.compress, ".zst": zstd}
    path.write_bytes(packers.get(path.suffix, bytes)(content))
    return path


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson.gz", "log.jsonl.zst"])
def test_batches_are_small_and_rows_keep_their_numbers(tmp_path, monkeypatch, name):
    monkeypatch.setattr(log_lines, "TEXT_BLOCK_BYTES", 256)
    lines = records()
    lines.insert(20, b"  ")
    path = write(tmp_path / name, lines)
    sizes = [batch.num_rows for batch in stream_batches([path], recognise_columns(path, COLUMNS))]
    assert sum(sizes) == 50
    assert max(sizes) < 10
    log = read_in_memory(path, COLUMNS)
    assert log.time.tolist() == list(range(50))
    assert log.requests.kinds.schema == pa.schema([("what", pa.string())])
    lines[41] = {**lines[41], "x": "far"}
    with pytest.raises(tc.InputError, match=r"row 41: field 'x' is of another type .* double"):
        read_in_memory(write(tmp_path / name, lines), COLUMNS)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"user_id": "u"', "row 51: no JSON object"),
        (b'{"user_id": "\xff", "time": 1, "x": 1, "y": 1}', "row 51: no JSON object"),
        (b'{"user_id": "u", "time": 1, "x": 1, "y": 1} {}', "row 51: no JSON object"),
        (b'{"user_id": "\\ud800", "time": 1, "x": 1, "y": 1}', "row 51: field 'user_id'"),
        (b'{"user_id": "u", "user_id": "v", "time": 1, "x": 1, "y": 1}', "row 51: field 'user_id'"),
        (b'{"user_id": {"a": 1}, "time": 1, "x": 1, "y": 1}', "row 51: field 'user_id'"),
        (b'{"user_id": "u", "time": 99999999999999999999, "x": 1, "y": 1}', "row 51: field 'time'"),
        (b'{"user_id": "u", "time": 1, "x": NaN, "y": 1}', "row 51: column 'x' is not a finite"),
        (b'{"a": ' * 3000 + b"1" + b"}" * 3000, r"row 51: column 'user_id' is empty"),
        (b"null", "row 51: no JSON object"),
        (b"[1]", "row 51: no JSON object"),
        (b"x" * 5000, r"row 51 is longer than 4,096 bytes"),
    ],
)
def test_bad_lines_are_named(tmp_path, monkeypatch, line, message):
    monkeypatch.setattr(log_lines, "TEXT_BLOCK_BYTES", 1 << (15 if line[:1] == b"{" else 12))
    path = write(tmp_path / "log.jsonl", [*records(), line])
    with pytest.raises(tc.InputError, match=message) as caught:
        read_in_memory(path, COLUMNS)
    assert "99999" not in str(caught.value)


def test_a_null_may_come_first(tmp_path):
    """Arrow's own reader crashes the process."""
    with pytest.raises(tc.InputError, match="row 1: no JSON object"):
        read_in_memory(write(tmp_path / "log.jsonl", [b" null", *records()]), COLUMNS)


def test_most_values_tell_the_type(tmp_path):
    lines = records()
    lines[0] = {**lines[0], "time": "now", "what": "none"}
    with pytest.raises(tc.InputError, match=r"row 1: field 'time' .* expected int64"):
        read_in_memory(write(tmp_path / "log.jsonl", lines), COLUMNS)


def test_a_byte_order_mark_is_no_line(tmp_path):
    path = write(tmp_path / "log.jsonl", records())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_in_memory(path).num_rows == 50
