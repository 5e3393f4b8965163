"""What is fuzzed: bytes go in; a log comes out, or an error that says what is wrong.

Anything else that a reader raises is a bug. Each target takes any bytes; the first few say
how the rest is read, so that options are mutated along with files.
"""

import bz2
import gzip
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from fuzz.releases import read_release
from trajcloak.log import read_in_memory
from trajcloak.options import DROPPABLE, LogColumns

Target = Callable[[bytes], bool]
"""Tells whether a log was read."""

REQUESTS = ("what", "more", "more.a", "what.b.c")
ZONES = (None, None, "Europe/Berlin", "America/Los_Angeles")
CLIPS = (None, None, (-10.0, -10.0, 60.0, 60.0), (0.0, 0.0, 0.0, 0.0))
SPEEDS = (None, None, 0.001, 340.0)
DELIMITERS = (None, None, ";", "\t")
SYSTEMS = (None, None, None, "EPSG:27700")
OPTION_BYTES = 4


def pack(content: bytes, suffix: str) -> bytes:
    """Compress a file as its name says."""
    if suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if suffix == ".bz2":
        return bz2.compress(content)
    if suffix == ".zst":
        return pa.compress(content, "zstd", asbytes=True)
    return content


def choose_columns(choice: bytes) -> LogColumns:
    """Choose how a log is read; no bytes, or zeros, make a plain choice."""
    drop, requests, other, place = choice.ljust(OPTION_BYTES, b"\0")[:OPTION_BYTES]
    return LogColumns(
        requests=tuple(name for bit, name in enumerate(REQUESTS) if requests >> bit & 1),
        drop=tuple(name for bit, name in enumerate(DROPPABLE) if drop >> bit & 1),
        tz=ZONES[other & 3],
        clip=CLIPS[other >> 2 & 3],
        max_speed=SPEEDS[other >> 4 & 3],
        delimiter=DELIMITERS[other >> 6 & 3],
        crs=SYSTEMS[place & 3],
    )


def read(source: object, columns: LogColumns) -> bool:
    """Read a log, or have it refused; what is read keeps the first rules of a log."""
    try:
        log = read_in_memory(source, columns, threads=1)
    except (tc.InputError, tc.OptionError):
        return False
    assert 0 < log.num_users <= log.num_rows
    assert len(log.x) == len(log.y) == len(log.time) == log.num_rows
    assert log.requests.kinds.num_rows <= len(log.requests.row) <= log.num_rows
    assert (log.requests.kind < log.requests.kinds.num_rows).all()
    log.users.validate(full=True)
    log.requests.kinds.validate(full=True)
    return True


def _file_target(names: tuple[str, ...]) -> Target:
    """Make a target for files: a byte chooses the name, some the options."""

    def run(data: bytes) -> bool:
        name = names[data[0] % len(names)] if data else names[0]
        columns = choose_columns(data[1 : 1 + OPTION_BYTES])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            content = data[1 + OPTION_BYTES :]
            # Every second time what is packed is damaged, not the packing.
            is_inside = bool(data) and data[0] // len(names) % 2 == 0
            path.write_bytes(pack(content, path.suffix) if is_inside else content)
            return read(path, columns)

    return run


def convert(data: bytes) -> bool:
    """Convert a movement file, and read the log that comes out."""
    names = ("fcd.xml", "walk.gpx", "7/Trajectory/1.plt", "new_ab.txt", "objects.dat")
    choice = data[0] if data else 0
    name = names[choice % len(names)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name + (".gz" if choice // 5 & 1 else ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack(data[1:], path.suffix))
        try:
            tc.convert_log(
                path,
                Path(folder, "log.parquet"),
                format="brinkhoff" if name.endswith(".dat") else None,
                geographic=bool(choice // 10 & 1) and name.endswith(".xml"),
            )
        except (tc.InputError, tc.OptionError):
            return False
        return read(Path(folder, "log.parquet"), LogColumns())


TYPES: tuple[pa.DataType, ...] = (
    pa.int64(), pa.string(), pa.float64(), pa.timestamp("us"), pa.timestamp("ns", "UTC"),
    pa.uint64(), pa.int8(), pa.float32(), pa.float16(), pa.bool_(), pa.date32(), pa.date64(),
    pa.time32("ms"), pa.time64("us"), pa.duration("s"), pa.decimal128(12, 3), pa.binary(),
    pa.large_string(), pa.large_binary(), pa.string_view(), pa.null(), pa.list_(pa.int64()),
    pa.binary(3), pa.timestamp("s", "Asia/Tokyo"), pa.month_day_nano_interval(),
    pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
    pa.map_(pa.string(), pa.int32()), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.int64()), pa.decimal256(40, 2), pa.struct([]),
    pa.struct([("a", pa.string_view())]), pa.run_end_encoded(pa.int32(), pa.string()),
    pa.list_view(pa.int64()), pa.json_(), pa.uuid(), pa.bool8(), pa.large_list(pa.int64()),
    pa.decimal32(5, 2), pa.binary_view(),
)  # fmt: skip
"""Of columns; the plainest first."""

NAMES = ("user_id", "time", "x", "y", "what", "more")
WIDTH = 8


def build_table(data: bytes) -> pa.Table:
    """Build a table: a byte for each column's type, then 8 bytes for each cell.

    The bits of a cell are taken as a value of the column's type, whatever they mean there.
    """
    names = (*NAMES[:2], "lon", "lat", *NAMES[4:]) if data[:1] > b"\x7f" else NAMES
    types = [TYPES[byte % len(TYPES)] for byte in data[1 : 1 + len(names)].ljust(len(names), b"\2")]
    cells = data[1 + len(names) :]
    num_rows = max(1, len(cells) // (WIDTH * len(names)))
    cells = cells.ljust(num_rows * WIDTH * len(names), b"\0")
    words = [cells[i : i + WIDTH] for i in range(0, num_rows * WIDTH * len(names), WIDTH)]
    return pa.table(
        [_to_array(words[c :: len(names)][:num_rows], type_) for c, type_ in enumerate(types)],
        names=list(names),
    )


def _to_array(words: list[bytes], type_: pa.DataType) -> pa.Array:
    """Take words as the bits of values of a type; 0xff in the last byte is null."""
    valid = [word[-1] != 255 for word in words]
    bits = pa.array([int.from_bytes(word, "little", signed=True) for word in words])
    mask = pa.array([not ok for ok in valid])
    bits = pa.compute.if_else(mask, None, bits)
    if pa.types.is_struct(type_):
        fields = [_to_array(words, field.type) for field in type_]
        names = [field.name for field in type_]
        return pa.StructArray.from_arrays(fields, names=names, mask=mask) if fields else (
            pa.array([{} if ok else None for ok in valid], type_)
        )  # fmt: skip
    if pa.types.is_dictionary(type_):
        return _to_array(words, type_.value_type).dictionary_encode()
    if pa.types.is_list(type_):
        return pa.array([[word[0]] if ok else None for word, ok in zip(words, valid, strict=True)])
    if pa.types.is_map(type_):
        pairs = [[("a", word[0])] if ok else None for word, ok in zip(words, valid, strict=True)]
        return pa.array(pairs, type_)
    if _is_bytes(type_):
        size = type_.byte_width if pa.types.is_fixed_size_binary(type_) else None
        cut = [w[:size] if size else w.rstrip(b"\0") for w in words]
        values = pa.array(
            [c if ok else None for c, ok in zip(cut, valid, strict=True)], pa.binary()
        )
        # Text that is not UTF-8 can stand in a file, and is to be refused.
        return _rename(values, type_)
    if pa.types.is_floating(type_) and type_.bit_width == 64:
        return bits.view(pa.float64())
    try:
        small = pa.compute.bit_wise_and(bits, (1 << min(type_.bit_width, 63) - 1) - 1)
        return small.cast(pa.int64()).cast(f"int{type_.bit_width}").view(type_)
    except (pa.ArrowException, ValueError, AttributeError):
        return pa.nulls(len(words), type_)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view()
        or pa.types.is_binary(type_) or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )  # fmt: skip


def _rename(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Call bytes text without a check that they are."""
    if pa.types.is_string(type_):
        return pa.Array.from_buffers(type_, len(values), values.buffers())
    if pa.types.is_large_string(type_):
        large = values.cast(pa.large_binary())
        return pa.Array.from_buffers(type_, len(values), large.buffers())
    if type_ == pa.string_view():
        text = [value and value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(text, type_)
    return values.cast(type_)


def table(data: bytes) -> bool:
    """Read a table of odd types and values: as it is, as Parquet and as Arrow."""
    columns = choose_columns(data[:OPTION_BYTES])
    made = build_table(data[OPTION_BYTES:])
    choice = data[0] >> 5 if data else 0
    if choice < 3:
        return read(made, columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.arrow")
        try:
            if choice < 6:
                path = Path(folder, "log.parquet")
                pq.write_table(made, path)
            else:
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, made.schema) as out:
                    out.write_table(made)
        except (pa.ArrowException, UnicodeDecodeError):
            return False
        return read(path, columns)


def points(data: bytes) -> bool:
    """Read GeoParquet: a byte for how many points, then 21 bytes each, then the metadata."""
    columns = choose_columns(data[:OPTION_BYTES])
    data = data[OPTION_BYTES:]
    num_points = data[0] % 8 + 1 if data else 1
    rest = data[1:]
    cells = [rest[i * 21 : i * 21 + 21] for i in range(num_points)]
    values = pa.array([None if cell[:1] == b"\xff" else cell for cell in cells], pa.binary())
    made = pa.table(
        {"user_id": [f"u{i}" for i in range(num_points)], "time": [0] * num_points,
         "geometry": values, "what": ["w"] * num_points},
    )  # fmt: skip
    geo = rest[num_points * 21 :]
    made = made.replace_schema_metadata({"geo": geo} if geo else None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        pq.write_table(made, path)
        return read(path, columns)


def make_point(x: float, y: float) -> bytes:
    """Make a point as GeoParquet holds it."""
    return b"\x01\x01\0\0\0" + struct.pack("<dd", x, y)


def make_geo(crs: object = None) -> bytes:
    """Make the metadata of GeoParquet."""
    column = {"encoding": "WKB", "geometry_types": ["Point"]} | ({"crs": crs} if crs else {})
    meta = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": column}}
    return json.dumps(meta).encode()


TARGETS: dict[str, Target] = {
    "csv": _file_target(("log.csv", "log.tsv", "log.csv.gz", "log.csv.bz2", "log.csv.zst")),
    "json": _file_target(("log.jsonl", "log.ndjson", "log.jsonl.gz", "log.jsonl.zst")),
    "parquet": _file_target(("log.parquet",)),
    "arrow": _file_target(("log.arrow", "log.feather")),
    "table": table,
    "points": points,
    "convert": convert,
    "release": read_release,
}
