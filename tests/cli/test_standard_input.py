"""``-`` instead of a log: what comes on standard input."""

import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TABLE = pa.table(
    {
        "user_id": [f"u{u}" for u in range(4) for _ in range(2)],
        "time": [0, 1] * 4,
        "x": [1.5] * 8,
        "y": [2.5] * 8,
    }
)


def to_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    return sink.getvalue()


def to_arrow() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return sink.getvalue()


def to_lines() -> bytes:
    return "\n".join(map(json.dumps, TABLE.to_pylist())).encode()


def to_csv() -> bytes:
    rows = [
        ",".join(TABLE.column_names),
        *(",".join(map(str, row.values())) for row in TABLE.to_pylist()),
    ]
    return "\n".join(rows).encode()


@pytest.mark.parametrize("write", [to_parquet, to_arrow, to_lines, to_csv])
def test_every_kind_of_log(run, monkeypatch, write):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(write())))
    done = run("anonymize", "-", "-o", "release", "--k", 2, "--json")
    assert done.code == 0
    assert json.loads(done.out)["manifest"]["users"] == 4


def test_messages_name_it(run, monkeypatch):
    bad = to_csv().replace(b"u1,0,1.5", b"u1,0,here", 1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad)))
    done = run("inspect", "-")
    assert done.code == 2
    assert " standard input: row 3: column 'x' cannot be read (it looks" in done.err


@pytest.mark.parametrize("write", [to_lines, to_csv])
@pytest.mark.parametrize("compression", ["gzip", "bz2", "zstd"])
def test_compressed(run, monkeypatch, write, compression):
    with pa.CompressedOutputStream("packed", compression) as stream:
        stream.write(write())
    packed = Path("packed").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    done = run("inspect", "-", "--k", 2, "--json")
    assert done.code == 0
    assert json.loads(done.out)["ingest"]["users"] == 4
    assert "anonymize - -o" in json.loads(done.out)["command"]


def test_compressed_and_damaged(run, monkeypatch):
    damaged = gzip.compress(to_csv())[:40] + b"no" * 20
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(damaged)))
    done = run("inspect", "-")
    assert (done.code, done.out) == (2, "")
    assert "Error: standard input: cannot be read" in done.err
