"""Every type of Arrow as a request attribute: published with its type, or refused clearly."""

import datetime
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.log.bad_rows import BadRows
from trajcloak.log.types import empty_damaged
from trajcloak.options import LogColumns

NUMBERS = [1, 2, None] * 4
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None] * 4
AMOUNTS = [Decimal("1.50"), Decimal("2"), None] * 4
TEXTS = ["a", "ü", None] * 4
BYTES = [b"abc", b"\xff\0\1", None] * 4
UNITS = ("s", "ms", "us", "ns")

KEPT = [
    pa.array([True, False, None] * 4),
    *(pa.array(NUMBERS, f"{sign}int{size}") for sign in ("", "u") for size in (8, 16, 32, 64)),
    pa.array([1.5, float("nan"), None] * 4, pa.float32()),
    pa.array([1.5, float("inf"), None] * 4, pa.float64()),
    pa.array(AMOUNTS, pa.decimal128(5, 2)),
    pa.array(AMOUNTS, pa.decimal256(50, 2)),
    pa.array(DAYS, pa.date32()),
    pa.array(NUMBERS, pa.time32("ms")),
    *(pa.array(NUMBERS, pa.time64(unit)) for unit in ("us", "ns")),
    *(pa.array(NUMBERS, pa.timestamp(unit)) for unit in UNITS[1:]),
    *(pa.array(NUMBERS, pa.timestamp(unit, "Europe/Berlin")) for unit in UNITS[1:]),
    *(pa.array(NUMBERS, pa.duration(unit)) for unit in UNITS),
    pa.array(TEXTS),
    pa.array(BYTES),
    pa.array(BYTES, pa.binary(3)),
]

CHANGED = [
    (pa.array(TEXTS).dictionary_encode(), pa.string()),
    (pa.array(NUMBERS).dictionary_encode(), pa.int64()),
    (pa.array(DAYS).dictionary_encode(), pa.date32()),
    (pa.array(TEXTS, pa.string_view()), pa.string()),
    (pa.array(TEXTS, pa.large_string()), pa.string()),
    (pa.array(BYTES, pa.large_binary()), pa.binary()),
    (pa.array(BYTES, pa.binary_view()), pa.binary()),
    (pa.RunEndEncodedArray.from_arrays([6, 12], TEXTS[:2]), pa.string()),
    (pa.array([uuid.UUID(int=i).bytes for i in range(12)], pa.uuid()), pa.binary(16)),
    (pa.array(AMOUNTS, pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pa.array(AMOUNTS, pa.decimal64(5, 2)), pa.decimal128(5, 2)),
    # Parquet has no such types.
    (pa.array(DAYS, pa.date64()), pa.date32()),
    (pa.array(NUMBERS, pa.time32("s")), pa.time32("ms")),
    (pa.array(NUMBERS, pa.timestamp("s")), pa.timestamp("ms")),
    (pa.array(NUMBERS, pa.timestamp("s", "UTC")), pa.timestamp("ms", "UTC")),
]

REFUSED = [
    (pa.array([[1], [2], None] * 4), "holds lists or maps"),
    (pa.array([[1], [2], None] * 4, pa.large_list(pa.int8())), "holds lists or maps"),
    (pa.array([[1], [2], None] * 4, pa.list_(pa.int8(), 1)), "holds lists or maps"),
    (pa.array([[("a", 1)]] * 12, pa.map_(pa.string(), pa.int8())), "holds lists or maps"),
    (pa.array([{"a": [1]}] * 12), r"what\.a' holds lists or maps"),
    (pa.array([{}] * 12, pa.struct([])), "holds objects without fields"),
    (pa.array([1.5] * 12, pa.float16()), "which few readers know; expected float32, float64"),
    (
        pa.array([pa.MonthDayNano([1, 2, 3])] * 12),
        "which few readers know; expected .* or durations",
    ),
]


def name(column):
    return str(column.type) if isinstance(column, pa.Array) else None


def write(path, column):
    n = len(column)
    table = pa.table(
        {"user_id": [f"user-{i:04d}" for i in range(n)], "time": [0] * n,
         "x": [float(i) for i in range(n)], "y": [1.0] * n, "what": column}
    )  # fmt: skip
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return path


def publish(folder, log):
    """Anonymize and audit; returns the published column."""
    columns = LogColumns(requests=("what",))
    result = anonymize(read_in_memory(log, columns), 3, rare="keep", allow=("what",))
    result.write(folder / "release", folder / "policy.parquet")
    report = audit_files(log, folder / "release", folder / "policy.parquet", LogColumns())
    assert report.passed, [check for check in report.checks if not check.passed]
    return pq.read_table(folder / "release" / "requests.parquet")["what"]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("column", KEPT, ids=name)
def test_types_that_are_kept(tmp_path, column, suffix):
    published = publish(tmp_path, write(tmp_path / f"log{suffix}", column))
    assert published.type == column.type
    wanted = set(map(str, column.drop_null().to_pylist()))
    assert set(map(str, published.to_pylist())) == wanted


@pytest.mark.parametrize(("column", "type_"), CHANGED, ids=name)
def test_types_that_become_others(tmp_path, column, type_):
    published = publish(tmp_path, write(tmp_path / "log.arrow", column))
    assert published.type == type_
    values = [str(value.as_py()) for value in column if value.is_valid]
    if not isinstance(column, pa.ExtensionArray):
        assert {str(value) for value in published.to_pylist()} == set(values)


@pytest.mark.parametrize(("column", "message"), REFUSED, ids=name)
def test_types_that_are_refused(tmp_path, column, message):
    log = write(tmp_path / "log.arrow", column)
    with pytest.raises(tc.InputError, match=rf"^request column '.*{message}"):
        read_in_memory(log, LogColumns(requests=("what",)))


def test_objects_of_json_lines_are_flattened(tmp_path):
    lines = [
        f'{{"user_id": "user-{i:04d}", "time": 0, "x": {i}, "y": 1, '
        f'"what": {{"n": {i % 2}, "deep": {{"r": {i % 2}.5, "is": {str(i % 2 > 0).lower()}}}}}}}'
        for i in range(12)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(lines))
    names = "what.n", "what.deep.r", "what.deep.is"
    columns = LogColumns(requests=names)
    result = anonymize(read_in_memory(log, columns), 3)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    report = audit_files(log, tmp_path / "release", tmp_path / "policy.parquet", columns)
    assert report.passed, [check for check in report.checks if not check.passed]
    schema = pq.read_schema(tmp_path / "release" / "requests.parquet")
    assert [(f.name, f.type) for f in schema][3:] == [
        ("what.n", pa.int64()), ("what.deep.r", pa.float64()), ("what.deep.is", pa.string()),
    ]  # fmt: skip


def test_text_that_is_not_utf8_is_named(tmp_path):
    raw = pa.array([b"ok", b"\xff"] * 6, pa.binary())
    text = pa.Array.from_buffers(pa.string(), 12, raw.buffers())
    for suffix in (".parquet", ".arrow"):
        log = write(tmp_path / f"log{suffix}", text)
        message = r"log\.\w+: 6 rows \(2, 4, 6, 8, 10, \.\.\.\): column 'what' is damaged, or holds"
        with pytest.raises(tc.InputError, match=message):
            read_in_memory(log, LogColumns(requests=("what",)))


def test_damage_and_other_troubles_are_named_at_once(tmp_path):
    raw = pa.array([b"ok", b"\xff", b"ok"], pa.binary())
    log = write(tmp_path / "log.parquet", pa.Array.from_buffers(pa.string(), 3, raw.buffers()))
    table = pq.read_table(log, columns=["user_id", "time", "x", "y"])
    places = pa.array([0.0, 1.0, float("inf")])
    table = table.set_column(2, "x", places).append_column("what", pq.read_table(log)["what"])
    with pytest.raises(tc.RefusedLogError) as caught:
        read_in_memory(table, LogColumns(requests=("what",)))
    assert [reason.split(";")[0] for reason in caught.value.reasons] == [
        "row 2: column 'what' is damaged, or holds text that is not UTF-8",
        "row 3: column 'x' is not a finite number (it looks like 'inf')",
    ]


def test_damaged_values_of_a_dictionary_are_found():
    raw = pa.array([b"a", b"\xff", b"c"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    column = pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 0, 1], pa.int8()), texts)
    bad = BadRows()
    batch = empty_damaged(pa.RecordBatch.from_arrays([column], names=["what"]), 10, bad)
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == ["c", None, None, "a", None]
    assert bad.explain()[0].startswith("2 rows (12, 15): column 'what' is damaged")
