"""Requests: what counts as one, which types they keep, how they are numbered."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from trajcloak.log import read_in_memory
from trajcloak.log.request_values import infer_types, merge_kinds
from trajcloak.options import LogColumns

DAY = datetime.date(2024, 2, 29)


def read_values(folder, *columns, csv=()):
    """Read logs with one request attribute, ``what``: a Parquet file for each column, then CSV."""
    files = []
    for number, column in enumerate(columns):
        n = len(column)
        table = {"user_id": [f"u{i}" for i in range(n)], "time": [number] * n}
        table |= {"x": [1.0] * n, "y": [1.0] * n, "what": column}
        files.append(folder / f"{number}.parquet")
        pq.write_table(pa.table(table), files[-1])
    if csv:
        lines = [f"u{i},9,1,1,{value}\n" for i, value in enumerate(csv)]
        files.append(folder / "z.csv")
        files[-1].write_text("user_id,time,x,y,what\n" + "".join(lines))
    return read_in_memory(files, LogColumns(requests=("what",))).requests


def sent(requests):
    """The requests in the order of their rows."""
    return [tuple(requests.kinds.slice(kind, 1).to_pylist()[0].values()) for kind in requests.kind]


def test_a_row_with_null_in_all_attributes_is_no_request(tmp_path):
    (tmp_path / "log.csv").write_text(
        "user_id,time,x,y,what,where\n"
        "u1,0,1,1,cafe,\n"
        "u2,0,1,1,,\n"
        "u3,0,1,1,,near\n"
        "u1,1,1,1,cafe,near\n"
    )
    columns = LogColumns(requests=("what", "where"))
    requests = read_in_memory(tmp_path / "log.csv", columns).requests
    assert requests.row.tolist() == [0, 2, 3]
    assert requests.kinds.column_names == ["what", "where"]
    assert sent(requests) == [("cafe", None), (None, "near"), ("cafe", "near")]
    assert requests.kinds.to_pylist() == [
        {"what": None, "where": "near"},
        {"what": "cafe", "where": None},
        {"what": "cafe", "where": "near"},
    ]


def test_an_attribute_without_any_value_in_several_files(tmp_path):
    files = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for time, file in enumerate(files):
        row = {"user_id": ["u"], "time": [time], "x": [1.0], "y": [1.0], "what": ["cafe"]}
        pq.write_table(pa.table(row | {"where": pa.nulls(1)}), file)
    requests = read_in_memory(files, LogColumns(requests=("what", "where"))).requests
    assert sent(requests) == [("cafe", None), ("cafe", None)]


def test_only_named_columns_are_read(tmp_path):
    (tmp_path / "log.csv").write_text("user_id,time,x,y,what,phone\nu1,0,1,1,cafe,555\n")
    log = read_in_memory(tmp_path / "log.csv", LogColumns(requests=("what",)))
    assert log.requests.kinds.to_pylist() == [{"what": "cafe"}]
    log = read_in_memory(tmp_path / "log.csv")
    assert (len(log.requests.row), log.requests.kinds.num_columns) == (0, 0)


def test_several_requests_of_a_user_at_one_time(tmp_path):
    (tmp_path / "log.csv").write_text(
        "user_id,time,x,y,what\nu1,0,1,1,b\nu1,0,1,1,a\nu1,0,1,1,b\nu1,0,1,1,\n"
    )
    log = read_in_memory(tmp_path / "log.csv", LogColumns(requests=("what",)))
    assert log.requests.row.tolist() == [0, 1, 2]
    assert sent(log.requests) == [("b",), ("a",), ("b",)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False, None]),
        pa.array([3, None, -1], pa.int8()),
        pa.array([3, 2**64 - 1, None], pa.uint64()),
        pa.array([0.5, None, -2], pa.float32()),
        pa.array(["b", "a", None], pa.string()),
        pa.array([b"\xff", b"", None], pa.binary()),
        pa.array([b"yy", b"xx"], pa.binary(2)),
        pa.array([DAY, None], pa.date32()),
        pa.array([datetime.datetime(2024, 1, 1), None], pa.timestamp("ms")),
        pa.array([datetime.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
        pa.array([datetime.time(3, 4), None], pa.time64("us")),
        pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2)),
        pa.array([None, None], pa.int32()),
        pa.array([], pa.float32()),
    ],
    ids=lambda column: str(column.type),
)
def test_parquet_keeps_types(tmp_path, column):
    table = {"user_id": list(range(len(column) + 1)), "time": [0] * (len(column) + 1)}
    table |= {"x": [1.0] * (len(column) + 1), "y": [1.0] * (len(column) + 1)}
    table["what"] = pa.concat_arrays([column, pa.nulls(1, column.type)])
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    kinds = read_in_memory(tmp_path / "log.parquet", LogColumns(requests=("what",))).requests.kinds
    assert kinds.schema.field("what").type == column.type
    expected = column.drop_null().unique()
    assert kinds["what"].to_pylist() == expected.take(pc.sort_indices(expected)).to_pylist()


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array(["b", "a"]).dictionary_encode(), pa.string()),
        (pa.array([2, 1]).dictionary_encode(), pa.int64()),
        (pa.array(["b", "a"], pa.string_view()), pa.string()),
    ],
    ids=["text in a dictionary", "numbers in a dictionary", "string_view"],
)
def test_types_with_a_plainer_equal(tmp_path, column, type_):
    requests = read_values(tmp_path, column)
    assert requests.kinds.schema.field("what").type == type_
    assert requests.kind.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (pa.array([[1], [2]]), "what"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "what"),
        (pa.array([{"a": [1]}]), "what.a"),
    ],
    ids=["list", "map", "list in a struct"],
)
def test_lists_are_refused(tmp_path, column, name):
    with pytest.raises(tc.InputError, match=f"'{name}' holds lists or maps; expected one value"):
        read_values(tmp_path, column)


def test_types_that_differ_between_files_are_widened(tmp_path):
    wide = read_values(tmp_path, pa.array([2], pa.int8()), pa.array([1, 2], pa.int64()))
    assert wide.kinds.schema.field("what").type == pa.int64()
    assert sent(wide) == [(2,), (1,), (2,)]
    text = read_values(tmp_path, pa.array(["b"]), pa.array(["a", "b"], pa.large_string()))
    assert sent(text) == [("b",), ("a",), ("b",)]
    empty = read_values(tmp_path, pa.nulls(2), pa.array(["a"]), pa.nulls(1))
    assert (empty.row.tolist(), sent(empty)) == ([2], [("a",)])


def test_types_that_cannot_be_one_are_refused(tmp_path):
    with pytest.raises(tc.InputError, match="is of type string in one file and int64 in another"):
        read_values(tmp_path, pa.array(["b"]), pa.array([1]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["10", "9", "-3", "0"], [10, 9, -3, 0]),
        (["1.5", "2", "-0.25"], [1.5, 2.0, -0.25]),
        (["007", "7"], ["007", "7"]),
        (["1.0", "1.00"], ["1.0", "1.00"]),
        (["1", "1.0"], ["1", "1.0"]),
        (["0.0", "-0.0"], ["0.0", "-0.0"]),
        (["+1", "2"], ["+1", "2"]),
        (["1e3", "2"], ["1e3", "2"]),
        (["nan", "1.5"], ["nan", "1.5"]),
        (["NA", "null", "x"], ["NA", "null", "x"]),
        (["0x1f", "3"], ["0x1f", "3"]),
        (["1", "true"], ["1", "true"]),
        ([" 1", "2"], [" 1", "2"]),
        (["9" * 19], ["9" * 19]),
        (["9" * 18], [10**18 - 1]),
    ],
    ids=lambda values: "/".join(map(str, values)),
)
def test_text_becomes_numbers_only_if_all_is_in_plain_notation(tmp_path, values, expected):
    requests = read_values(tmp_path, csv=values)
    assert sent(requests) == [(value,) for value in values]
    kinds = infer_types(requests.kinds)
    typed = [kinds["what"][kind].as_py() for kind in requests.kind.tolist()]
    assert typed == expected
    assert [type(value) for value in typed] == [type(value) for value in expected]
    merged, (number,) = merge_kinds([kinds])
    assert merged["what"].to_pylist() == sorted(set(expected))
    assert merged.take(pa.array(number)) == kinds


def test_types_are_inferred_column_by_column_and_null_is_no_value():
    kinds = pa.table(
        {
            "n": ["1", None, "1", "2"],
            "f": ["0.5", "1", None, "0.5"],
            "t": ["x", "1", "2", None],
            "none": pa.array([None] * 4, pa.string()),
            "typed": [1, 2, 3, 4],
        }
    )
    found = infer_types(kinds)
    assert found.to_pydict() == {
        "n": [1, None, 1, 2],
        "f": [0.5, 1.0, None, 0.5],
        "t": ["x", "1", "2", None],
        "none": [None] * 4,
        "typed": [1, 2, 3, 4],
    }
    assert [str(type_) for type_ in found.schema.types] == [
        "int64", "double", "string", "string", "int64",
    ]  # fmt: skip


def test_with_a_text_file_all_values_are_text(tmp_path):
    both = read_values(tmp_path, pa.array([6, 5]), csv=["5", "70"])
    assert sent(both) == [("6",), ("5",), ("5",), ("70",)]
    both = read_values(tmp_path, pa.array([1.0, -0.0, 2.5, 1e-7]), csv=["1", "0", "x"])
    assert sent(both) == [(v,) for v in ("1", "0", "2.5", "0.0000001", "1", "0", "x")]
    both = read_values(tmp_path, pa.array(["b", "a"]), pa.nulls(1), csv=["a", "x"])
    assert sent(both) == [("b",), ("a",), ("a",), ("x",)]
    both = read_values(tmp_path, pa.array([DAY, None]), pa.array([True]), csv=["x"])
    assert sent(both) == [("2024-02-29",), ("true",), ("x",)]
    with pytest.raises(tc.InputError, match="is of type binary in one file, and another file is"):
        read_values(tmp_path, pa.array([b"\xff"]), csv=["x"])


def test_values_of_json_lines_are_text(tmp_path):
    values = ["1", "1.0", "2.5", "-0.0", "1e20", "12345678901234567", "null"]
    lines = [
        f'{{"user_id": {i}, "time": 0, "x": 1, "y": 1, "n": {value}, "b": {b}, "o": {{"i": {i}}}}}'
        for i, (value, b) in enumerate(zip(values, ["true", "false", "null"] * 3, strict=False))
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    log = read_in_memory(tmp_path / "log.jsonl", LogColumns(requests=("n", "b", "o.i")))
    assert log.has_text_requests
    assert log.requests.kinds.schema.types == [pa.string()] * 3
    found = [kind for kind, *_ in sent(log.requests)]
    assert found == ["1", "1", "2.5", "0", "1" + "0" * 20, "12345678901234568", None]
    assert [b for _, b, _ in sent(log.requests)][:3] == ["true", "false", None]
    assert [i for *_, i in sent(log.requests)] == list("0123456")
    with pytest.raises(tc.InputError, match=r"'o.i' is a field of objects; .* requests=.o.i."):
        read_in_memory(tmp_path / "log.jsonl", LogColumns(requests=("o",)))


@pytest.mark.parametrize("size", [np.uint32, np.uint64])
def test_floats_that_are_one_number_are_one_value(tmp_path, size):
    """Otherwise equal numbers with different bits would be numbered in the order of the rows."""
    float_, nan = {
        np.uint32: (np.float32, [0x7FC00000, 0xFFC00000, 0x7FC0BEEF]),
        np.uint64: (np.float64, [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 0xDEADBEEF]),
    }[size]
    values = np.concatenate(
        [np.array(nan, size).view(float_), np.array([0, -0.0, 1, -1, -np.inf], float_)]
    )
    for column in (values, values[::-1]):
        kinds = read_values(tmp_path, pa.array(column)).kinds["what"].to_numpy()
        assert kinds.dtype == float_
        expected = np.array([-np.inf, -1, 0, 1, np.nan], float_)
        assert kinds.view(size).tolist() == expected.view(size).tolist()
    both = read_values(tmp_path, pa.array(values[:4]), pa.array(values[4:]))
    assert both.kind.tolist() == [4, 4, 4, 2, 2, 3, 1, 0]


@pytest.mark.parametrize("index", [pa.int8(), pa.int32()])
@pytest.mark.parametrize("texts", [["cafe", "bar", "cafe"], ["cafe", "bar", "cafe", None]])
def test_a_dictionary_may_repeat_values(index, texts):
    """The release must not show how often a value was in the dictionary."""
    what = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0, 2], index), pa.array(texts))
    base = {"user_id": list(range(6)), "time": [0] * 6, "x": [1.0] * 6, "y": [1.0] * 6}
    log = read_in_memory(pa.table({**base, "what": what}), LogColumns(requests=("what",)))
    assert log.requests.kinds["what"].to_pylist() == ["bar", "cafe"]
    assert log.requests.kind.tolist() == [1, 0, 1, 1, 1]


def test_text_is_in_the_order_of_its_bytes(tmp_path):
    values = ["é", "z", "Z", "a", "", "😀", "\uff5e"]
    kinds = read_values(tmp_path, pa.array(values)).kinds["what"].to_pylist()
    assert kinds == sorted(values, key=lambda text: text.encode())


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_distinct_requests_are_those_of_sorted_tuples(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    names = ["one", "two", "three"][: rng.integers(1, 4)]
    columns = {
        name: pa.array(
            rng.integers(0, 5, n), pa.int64(), mask=rng.random(n) < 0.3, from_pandas=False
        )
        for name in names
    }
    base = {"user_id": list(range(n)), "time": [0] * n, "x": [1.0] * n, "y": [1.0] * n}
    pq.write_table(pa.table(base | columns), tmp_path / "log.parquet", row_group_size=7)
    requests = read_in_memory(tmp_path / "log.parquet", LogColumns(requests=tuple(names))).requests
    rows = list(zip(*(column.to_pylist() for column in columns.values()), strict=True))
    expected_rows = [i for i, row in enumerate(rows) if any(value is not None for value in row)]
    expected = [rows[i] for i in expected_rows]
    assert requests.row.tolist() == expected_rows
    assert sent(requests) == expected

    def null_first(row):
        return [(value is not None, value) for value in row]

    assert [tuple(kind.values()) for kind in requests.kinds.to_pylist()] == sorted(
        set(expected), key=null_first
    )


def test_half_precision_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    columns = {"user_id": [1], "time": [0], "x": [0.0], "y": [0.0]}
    pq.write_table(pa.table({**columns, "f": pa.array([1.5], pa.float16())}), path)
    with pytest.raises(tc.InputError, match=r"'f' is of type halffloat.*expected float32"):
        read_in_memory(path, LogColumns(requests=("f",)))
