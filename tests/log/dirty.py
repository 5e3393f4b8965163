"""Draw small logs, spoil them, and write them in every format."""

import gzip
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("user_id", "time", "x", "y", "what")
BEGIN = datetime(2024, 5, 1, 8)

HOSTILE = [
    None, "", " ", "nan", float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 0, -0.0,
    1e300, "1e400", "NULL", "0x1F", "1_000", "\uff11", "\x00", "\ufeff", "'; drop table", '"',
    "=1+1",
    10**30, 2**63 - 1, -(2**63), "2024-13-01", "2024-05-01", "2024-05-01T08:00:00+02:00",
    "9999-12-31T23:59:59", datetime(1, 1, 1), -5, 1.5, True, [1], {"a": 1}, "\u202e", "\t", "a,b",
    "\r", b"\x80", "x" * 5000, "<script>", "${jndi:ldap}", "\U0001f600",
]  # fmt: skip


@dataclass
class Dirty:
    """A log before it is written: its cells by row, and how it was spoilt."""

    names: tuple[str, ...]
    rows: list[list[object]]
    spoilt: set[int] = field(default_factory=set)
    """Rows in which a cell was replaced."""

    is_bent: bool = False
    """Whether all places or times were moved, or rows repeated."""


def draw_log(rng):
    """Draw a log of a few users, and spoil it: shuffled, repeated, thinned, hostile, extreme."""
    step = timedelta(seconds=int(rng.choice([1, 60, 60, 600])))
    num_users, num_times = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    is_integer = rng.random() < 0.2
    rows = [
        [u if is_integer else f"user-{u}", BEGIN + step * i,
         round(13.4 + rng.random() / 100, 6), round(52.5 + rng.random() / 100, 6),
         f"w{rng.integers(3)}"]
        for u in range(num_users) for i in range(num_times)
    ]  # fmt: skip
    log = Dirty(NAMES if rng.random() < 0.5 else (*NAMES[:2], "lon", "lat", "what"), rows)
    if rng.random() < 0.2:
        scale = float(rng.choice([1e-12, 1e6, 1e15, 1e101]))
        for row in rows:
            row[2:4] = [value * scale for value in row[2:4]]
        log.is_bent = True
    if rng.random() < 0.15:
        for row in rows:
            row[1] = int(rng.choice([0, 1, 2**31, 2**62, -(2**62), 10**18]))
        log.is_bent = True
    if rng.random() < 0.5:
        log.rows = rows = [row for row in rows if rng.random() < 0.8] or rows
    if rng.random() < 0.3:
        rows += [list(rows[i]) for i in rng.integers(0, len(rows), 3)]
        log.is_bent = True
    order = rng.permutation(len(rows))
    log.rows = [rows[i] for i in order]
    for _ in range(int(rng.choice([0, 0, 1, 1, 1, 2]))):
        row, cell = int(rng.integers(len(rows))), int(rng.integers(5))
        log.rows[row][cell] = HOSTILE[rng.integers(len(HOSTILE))]
        log.spoilt.add(row)
    return log


def to_csv(log, delimiter=","):
    def text(cell):
        if isinstance(cell, bytes):
            return cell.decode("utf-8", "surrogateescape")
        return "" if cell is None else cell.isoformat() if hasattr(cell, "isoformat") else str(cell)

    lines = [delimiter.join(map(text, row)) for row in (log.names, *log.rows)]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def to_lines(log):
    def encode(cell):
        if isinstance(cell, bytes):
            return b'"' + cell + b'"'
        return json.dumps(cell.isoformat() if hasattr(cell, "isoformat") else cell).encode()

    names = [json.dumps(name).encode() for name in log.names]
    return b"\n".join(
        b"{" + b", ".join(n + b": " + encode(c) for n, c in zip(names, row, strict=True)) + b"}"
        for row in log.rows
    )


def to_column(cells):
    """Make a column of one type: the type of the cells if they share one, else text."""
    if any(isinstance(cell, bytes) for cell in cells):
        encoded = [c if isinstance(c, bytes) else str(c).encode() for c in cells]
        # Text that is not UTF-8, as other writers leave it behind.
        return pa.Array.from_buffers(
            pa.string(), len(encoded), pa.array(encoded, pa.binary()).buffers()
        )
    try:
        return pa.array(cells)
    except (pa.ArrowException, ValueError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def to_table(log):
    columns = [list(cells) for cells in zip(*log.rows, strict=True)]
    return pa.table(dict(zip(log.names, map(to_column, columns), strict=True)))


def to_frame(log):
    columns = [list(cells) for cells in zip(*log.rows, strict=True)]
    return pd.DataFrame(dict(zip(log.names, columns, strict=True)))


def write_arrow(path, table):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def zstd(content):
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as packed:
        packed.write(content)
    return stream.getvalue().to_pybytes()


WRITERS = {
    "log.csv": lambda path, log: path.write_bytes(to_csv(log)),
    "log.tsv": lambda path, log: path.write_bytes(to_csv(log, "\t")),
    "log.csv.gz": lambda path, log: path.write_bytes(gzip.compress(to_csv(log, ";"))),
    "log.jsonl": lambda path, log: path.write_bytes(to_lines(log)),
    "log.jsonl.zst": lambda path, log: path.write_bytes(zstd(to_lines(log))),
    "log.parquet": lambda path, log: pq.write_table(to_table(log), path),
    "log.arrow": lambda path, log: write_arrow(path, to_table(log)),
}


def draw_reading(rng):
    """Draw how a log is read, and how it is anonymized."""
    drops = ("empty", "out-of-range", "null-island", "swapped", "conflict", "teleport")
    reading = {"drop": tuple(name for name in drops if rng.random() < 0.2)}
    if rng.random() < 0.1:
        reading["tz"] = "Europe/Berlin"
    if rng.random() < 0.1:
        reading["clip"] = (0.0, 0.0, 50.0, 60.0)
    options = {}
    if rng.random() < 0.5:
        options["every"] = str(rng.choice(["60s", "7s", "1h", "400d"]))
    if rng.random() < 0.3:
        options["missing"] = "hold"
    if rng.random() < 0.3:
        options["length"] = int(rng.integers(1, 4))
    if rng.random() < 0.1:
        options["windows"] = "07:00-08:03"
    options["rows_alike"] = bool(rng.random() < 0.8)
    return reading, options
