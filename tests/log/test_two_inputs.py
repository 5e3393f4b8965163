"""Two inputs: locations, and requests of a request log or of rows that are no reports."""

import csv
import json
import random
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from engines.drawn_runs import build_folder_engine
from runs import anonymize
from trajcloak.engines.engine import MemoryEngine, Sizes
from trajcloak.log import read_in_memory, read_shards
from trajcloak.log.sharded_log import build_shard
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_files

COLUMNS = LogColumns(requests=("what", "size"))
MARKED = replace(COLUMNS, is_report="is_report")
BEGIN = datetime(2024, 5, 1, 8)
SCHEMA = pa.schema(
    [
        ("user_id", pa.string()),
        ("time", pa.timestamp("us")),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("what", pa.string()),
        ("size", pa.string()),
        ("is_report", pa.bool_()),
    ]
)
FEW_ROWS = Sizes(9, 9)
NOBODY = "nobody"


def draw_rows(seed=0, num_users=9, length=5):
    """Rows of one log: some carry a request; and, at the end, requests that are no reports."""
    rng = random.Random(seed)
    rows = [
        {
            "user_id": f"user-{user}",
            "time": BEGIN + timedelta(minutes=i),
            "x": rng.random(),
            "y": rng.random(),
            **draw_request(rng),
            "is_report": True,
        }
        for user in range(num_users)
        for i in range(length)
    ]
    users = sorted({row["user_id"] for row in rows}) + [NOBODY] * num_users
    rows += [
        {
            "user_id": rng.choice(users),
            "time": BEGIN + timedelta(seconds=rng.randrange(-600, 900)),
            "x": None,
            "y": None,
            **draw_request(rng),
            "is_report": False,
        }
        for _ in range(num_users)
    ]
    rng.shuffle(rows)
    return rows


def draw_request(rng):
    if rng.random() < 0.4:
        return {"what": None, "size": None}
    return {"what": rng.choice(["cafe", "bar", None]), "size": rng.choice(["1", "20", "3.5"])}


def split(rows):
    """The rows as two logs: locations, and requests without a place."""
    requests = [
        {name: row[name] for name in ("user_id", "time", "what", "size")}
        for row in rows
        if row["what"] or row["size"]
    ]
    locations = [
        {name: row[name] for name in ("user_id", "time", "x", "y")}
        for row in rows
        if row["is_report"]
    ]
    return locations, requests


def to_table(rows):
    names = [name for name in SCHEMA.names if not rows or name in rows[0]]
    return pa.Table.from_pylist(rows, pa.schema([SCHEMA.field(name) for name in names]))


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def write_lines(path, rows):
    path.write_text("\n".join(json.dumps(row, default=str) for row in rows))


def write_parquet(path, rows):
    pq.write_table(to_table(rows), path, row_group_size=4)


def write_folder(path, rows):
    path.mkdir()
    write_parquet(path / "a.parquet", rows[:20])
    write_parquet(path / "b.parquet", rows[20:])


WRITERS = {
    "csv": write_csv,
    "jsonl": write_lines,
    "parquet": write_parquet,
    "feather": lambda path, rows: pyarrow.feather.write_feather(to_table(rows), str(path)),
    "d": write_folder,
}
FRAMES = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": polars.from_arrow,
}


def write(path, rows):
    WRITERS[path.suffix[1:]](path, rows)
    return path


def list_sent(log):
    """The requests of a log: user, time and values, in order."""
    kinds = log.requests.kinds.to_pylist()
    return sorted(
        zip(
            log.users.take(pa.array(log.request_user)).to_pylist(),
            log.request_time.tolist(),
            (str(kinds[kind]) for kind in log.requests.kind.tolist()),
            strict=True,
        )
    )


def list_shards(log):
    return [build_shard([log.engine.read(part) for part in shard]) for shard in log.shards]


def list_rows(log):
    """All rows of a log in shards, by user and time."""
    return sorted(
        row
        for shard in list_shards(log)
        for row in zip(
            shard.users.take(pa.array(shard.user)).to_pylist(),
            shard.time.tolist(),
            shard.x.tolist(),
            shard.y.tolist(),
            strict=True,
        )
    )


def list_facts(log):
    """The facts that must not depend on requests."""
    of_requests = {"num_requests", "unknown_requests", "has_text_requests"}
    names = [field.name for field in fields(log.facts) if field.name not in of_requests]
    return {name: getattr(log.facts, name) for name in names}


def check_same(one, other):
    """Two logs in memory are the same, but for the numbers of their rows in the files."""
    assert list_sent(one) == list_sent(other)
    assert (one.num_requests, one.unknown_requests) == (other.num_requests, other.unknown_requests)
    for name in ("users", "step", "time_range", "bounds", "dropped", "shifted"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("user", "time", "x", "y"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


@pytest.fixture(scope="module")
def expected():
    locations, requests = split(draw_rows())
    return read_in_memory(to_table(locations), COLUMNS, to_table(requests))


def test_requests_at_the_times_of_rows_are_those_of_one_log():
    rows = [row for row in draw_rows() if row["is_report"]]
    locations, requests = split(rows)
    one = read_in_memory(to_table(rows), COLUMNS)
    two = read_in_memory(to_table(locations), COLUMNS, to_table(requests))
    assert one.is_one_log
    assert one.requests.user is one.requests.time is None
    assert not two.is_one_log
    assert two.requests.row is None
    assert two.num_requests == len(requests)
    check_same(one, two)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("other", ["csv", "parquet"])
def test_every_kind_of_file(tmp_path, kind, other, expected):
    rows = draw_rows()
    locations, requests = split(rows)
    path = write(tmp_path / f"locations.{kind}", locations)
    sent = write(tmp_path / f"requests.{other}", requests)
    log = read_in_memory(path, COLUMNS, sent)
    check_same(log, expected)
    assert log.has_text_requests == (other == "csv")
    by_glob = read_in_memory([path], COLUMNS, str(tmp_path / "requ*"))
    check_same(by_glob, expected)
    swapped = read_in_memory(
        write(tmp_path / f"places.{other}", locations),
        COLUMNS,
        write(tmp_path / f"sent.{kind}", requests),
    )
    check_same(swapped, expected)
    assert swapped.has_text_requests == (kind in ("csv", "jsonl"))
    marked = read_in_memory(write(tmp_path / f"all.{kind}", rows), MARKED)
    check_same(marked, expected)
    assert marked.unknown_requests > 0


@pytest.mark.parametrize("frame", FRAMES)
def test_frames(frame, expected):
    rows = draw_rows()
    locations, requests = (FRAMES[frame](to_table(part)) for part in split(rows))
    check_same(read_in_memory(locations, COLUMNS, requests), expected)
    check_same(read_in_memory(FRAMES[frame](to_table(rows)), MARKED), expected)


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("is_marked", [False, True])
def test_shards_hold_what_one_shard_holds(tmp_path, kind, numbers, is_marked):
    rows = draw_rows(1, num_users=12)
    if numbers:
        rows = [
            {**row, "user_id": row["user_id"].removeprefix("user-").replace(NOBODY, "99")}
            for row in rows
        ]
    locations, requests = split(rows)
    source = [write(tmp_path / f"a.{kind}", locations), write(tmp_path / f"b.{kind}", requests)]
    columns = COLUMNS
    if is_marked:
        source, columns = [write(tmp_path / f"c.{kind}", rows), None], MARKED
    whole = read_shards(MemoryEngine(1), source[0], columns, source[1])
    (one,) = list_shards(whole)
    (tmp_path / "work").mkdir()
    for engine in (
        MemoryEngine(1, sizes=FEW_ROWS),
        build_folder_engine(tmp_path / "work", FEW_ROWS),
    ):
        log = read_shards(engine, source[0], columns, source[1])
        shards = list_shards(log)
        assert len(shards) > 1
        assert log.kinds == one.requests.kinds == whole.kinds
        assert list_facts(log) == list_facts(whole)
        assert log.facts.num_requests == whole.facts.num_requests == len(requests)
        assert log.facts.unknown_requests == whole.facts.unknown_requests > 0
        assert log.facts.has_text_requests == (kind != "parquet")
        assert list_rows(log) == list_rows(whole)
        assert sorted(sent for shard in shards for sent in list_sent(shard)) == list_sent(one)
        assert all(shard.requests.kinds == log.kinds for shard in shards)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [Sizes(10**6, 9), FEW_ROWS], ids=["one shard", "shards"])
def test_requests_change_nothing_but_requests(seed, sizes):
    """Move requests to other users and times, add and remove some: rows and facts stay."""
    rng = random.Random(seed)
    rows = draw_rows(seed)
    reports = [row for row in rows if row["is_report"]]
    users = [row["user_id"] for row in reports] + [NOBODY]
    moved = []
    for row in rows:
        request = draw_request(rng)
        if row["is_report"]:
            moved.append({**row, **request})
        elif rng.random() < 0.6:
            time = BEGIN + timedelta(seconds=rng.randrange(-6000, 9000))
            moved.append({**row, **request, "user_id": rng.choice(users), "time": time})
    rng.shuffle(moved)
    columns = replace(MARKED, clip=(0.1, 0.1, 1.0, 1.0), drop=("conflict", "empty"))
    logs = [
        read_shards(MemoryEngine(1, sizes=sizes), to_table(part), columns)
        for part in (rows, moved, reports)
    ]
    for part in (rows, moved):
        _, requests = split(part)
        locations = to_table(reports).drop_columns(["what", "size", "is_report"])
        log = read_shards(
            MemoryEngine(1, sizes=sizes),
            locations,
            replace(columns, is_report=None),
            to_table(requests or [dict.fromkeys(("user_id", "time", "what", "size"))]),
        )
        logs.append(replace(log, facts=replace(log.facts, reading=logs[0].facts.reading)))
    for log in logs[1:]:
        assert list_facts(log) == list_facts(logs[0])
        assert list_rows(log) == list_rows(logs[0])
    assert logs[0].facts.dropped["clip"] > 0


def test_times_of_the_request_log_are_not_shifted_in_the_facts():
    columns = LogColumns(requests=("what",), tz="Europe/Berlin")
    night = datetime(2024, 3, 31, 2, 30)
    locations = pa.table({"user_id": [1], "time": [BEGIN], "x": [1.0], "y": [1.0]})
    requests = pa.table({"user_id": [1, 2], "time": [night, night], "what": ["a", "b"]})
    log = read_in_memory(locations, columns, requests)
    assert log.shifted == {"ambiguous": 0, "nonexistent": 0}
    moved = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    assert log.request_time.tolist() == [int(moved.timestamp() * 1e6)]
    assert (log.num_requests, log.unknown_requests) == (1, 1)
    assert log.requests.kinds.to_pylist() == [{"what": "a"}]


@pytest.mark.parametrize(
    "requests",
    [
        pa.table({"user_id": ["a"], "time": [0], "what": pa.nulls(1, pa.int8())}),
        pa.table(
            {
                "user_id": pa.array([], pa.string()),
                "time": pa.array([], pa.int64()),
                "what": pa.array([], pa.int8()),
            }
        ),
        pa.table({"user_id": [None], "time": pa.nulls(1, pa.int64()), "what": pa.nulls(1)}),
    ],
    ids=["no value", "no row", "nothing"],
)
@pytest.mark.parametrize("sizes", [Sizes(10**6, 9), Sizes(1, 1)])
def test_a_request_log_without_requests(requests, sizes):
    locations = pa.table({"user_id": ["a", "b"], "time": [0, 0], "x": [1.0, 1], "y": [1.0, 1]})
    log = read_shards(
        MemoryEngine(1, sizes=sizes), locations, LogColumns(requests=("what",)), requests
    )
    assert (log.facts.num_requests, log.facts.unknown_requests) == (0, 0)
    assert not log.facts.is_one_log
    assert log.kinds.column_names == ["what"]
    assert log.kinds.num_rows == 0


@pytest.mark.parametrize("name", ["requests.csv", "requests.parquet"])
def test_no_attribute_is_named(tmp_path, name):
    locations, requests = split(draw_rows())
    path = write(tmp_path / name, requests)
    log = read_in_memory(to_table(locations), LogColumns(), path)
    assert (log.num_requests, log.requests.kinds.num_columns) == (0, 0)


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        pa.array([1, 0, 1], pa.uint8()),
        ["true", "False", "TRUE"],
        ["1", "0", "1"],
        [1.0, 0.0, 1.0],
        pa.array(["true", "false", "true"]).dictionary_encode(),
    ],
    ids=["bool", "numbers", "text", "digits", "floats", "dictionary"],
)
def test_what_says_that_a_row_is_a_report(values):
    table = pa.table(
        {
            "user_id": ["a", None, "b"],
            "time": [0, None, 1],
            "x": [1.0, None, 2.0],
            "y": [1.0, None, 2.0],
            "what": ["cafe", None, None],
            "is_report": values,
        }
    )
    log = read_in_memory(table, LogColumns(requests=("what",), is_report="is_report"))
    assert log.x.tolist() == [1.0, 2.0]
    assert log.number_rows(np.array([1])).tolist() == [3]
    assert not any(log.dropped.values())
    assert list_sent(log) == [("a", 0, "{'what': 'cafe'}")]


@pytest.mark.parametrize(
    "values",
    [
        [True, None],
        [1, 2],
        ["true", "yes"],
        ["true", ""],
        [1.0, 0.5],
        [b"\xff", b"\xff"],
        [[1], [0]],
    ],
    ids=str,
)
def test_what_does_not_say_it(values):
    table = {"user_id": ["a", "b"], "time": [0, 1], "x": [1.0, 2.0], "y": [1.0, 2.0]}
    rows = r"2 rows \(1, 2\)" if isinstance(values[0], list | bytes) else "row 2"
    with pytest.raises(tc.InputError, match=rf"^{rows}: column 'is_report' does not say"):
        read_in_memory(pa.table({**table, "is_report": values}), LogColumns(is_report="is_report"))


def test_no_row_is_a_report(tmp_path):
    (tmp_path / "log.csv").write_text("user_id,time,x,y,is_report\na,0,1,1,false\n")
    with pytest.raises(tc.InputError, match="no row is a location report, as column 'is_report'"):
        read_in_memory(tmp_path / "log.csv", LogColumns(is_report="is_report"))


@pytest.mark.parametrize("column", ["user_id", "time"])
@pytest.mark.parametrize("is_marked", [False, True])
def test_empty_cells_of_requests(tmp_path, column, is_marked):
    rows = [row for row in draw_rows() if row["is_report"]]
    empty = {**rows[0], "is_report": False, "x": None, "y": None, "what": None, "size": None}
    empty |= {column: None}
    wrong = [*rows, empty, {**empty, "what": "cafe"}]

    def read(kept, drop=()):
        if is_marked:
            return read_in_memory(write(tmp_path / "log.csv", kept), replace(MARKED, drop=drop))
        locations, _ = split(rows)
        path = write(tmp_path / "requests.csv", kept)
        return read_in_memory(to_table(locations), replace(COLUMNS, drop=drop), path)

    expected = read(wrong[:-1])
    message = rf"^request log: .*csv: row {len(wrong)}: column '{column}' is empty; "
    with pytest.raises(tc.InputError, match=message):
        read(wrong)
    dropped = read(wrong, ("empty",))
    assert list_sent(dropped) == list_sent(expected)
    assert (expected.dropped_requests, dropped.dropped_requests) == (0, 1)
    assert dropped.unknown_requests == 0
    assert not any(dropped.dropped.values())


TIMES = {
    "whole numbers": pa.array([0]),
    "timestamps without a zone": pa.array([BEGIN]),
    "timestamps with a zone": pa.array([BEGIN], pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("one", TIMES)
@pytest.mark.parametrize("other", TIMES)
def test_times_are_of_one_kind(one, other):
    locations = pa.table({"user_id": [1], "time": TIMES[one], "x": [1.0], "y": [1.0]})
    requests = pa.table({"user_id": [1], "time": TIMES[other], "what": ["a"]})
    columns = LogColumns(requests=("what",))
    if one == other:
        assert read_in_memory(locations, columns, requests).num_requests == 1
        return
    message = f"^request log: column 'time' holds {other}, and the locations have {one};"
    with pytest.raises(tc.InputError, match=message):
        read_in_memory(locations, columns, requests)


@pytest.mark.parametrize("start", [0, -(2**62), 2**62 - 3])
@pytest.mark.parametrize("length", [None, 1])
def test_requests_at_absurd_times_are_outside_windows(start, length):
    """A refusal would tell that somebody sent something then."""
    locations = {"user_id": [1, 2] * 2, "time": [start, start, start + 1, start + 1]}
    locations |= {"x": [1.0] * 4, "y": [1.0] * 4}
    times = [-(2**63), -(2**62) - 1, start, 2**62, 2**63 - 1]
    requests = pa.table({"user_id": [1] * 5, "time": times, "what": ["a"] * 5})
    release = anonymize(
        pa.table(locations),
        2,
        columns=LogColumns(requests=("what",)),
        request_log=requests,
        length=length,
        rare="keep",
        height=1,
    )
    assert release.manifest["requests"] == 1
    assert release.figures["withheld"]["outside_windows"] == 4


IDS = {
    "numbers": (pa.array([7, 8]), "parquet"),
    "text": (pa.array(["7", "8"]), "parquet"),
    "names": (pa.array(["7", "x"]), "parquet"),
    "CSV": (pa.array(["7", "8"]), "csv"),
    "CSV of names": (pa.array(["7", "x"]), "csv"),
}
MIXED = {
    ("numbers", "text"): "holds text, and the locations have numbers",
    ("numbers", "names"): "holds text, and the locations have numbers",
    ("text", "numbers"): "holds numbers, and the locations have text",
    ("names", "numbers"): "holds numbers, and the locations have text",
    ("CSV of names", "numbers"): "holds numbers, and the locations have text",
}


@pytest.mark.parametrize("one", IDS)
@pytest.mark.parametrize("other", IDS)
@pytest.mark.parametrize("sizes", [Sizes(10**6, 9), Sizes(1, 1)], ids=["one shard", "shards"])
def test_ids_are_of_one_kind(tmp_path, one, other, sizes):
    """Numbers in text files are compared with numbers."""
    files = []
    for name, table in ((one, {"x": [1.0, 1.0], "y": [1.0, 1.0]}), (other, {"what": ["a", "b"]})):
        ids, kind = IDS[name]
        files.append(tmp_path / f"{len(files)}.{kind}")
        table = {"user_id": ids, "time": [0, 0], **table}
        if kind == "csv":
            pd.DataFrame({n: list(map(str, v)) for n, v in table.items()}).to_csv(
                files[-1], index=False
            )
        else:
            pq.write_table(pa.table(table), files[-1])
    engine, columns = MemoryEngine(1, sizes=sizes), LogColumns(requests=("what",))
    if (one, other) in MIXED:
        message = f"^request log: column 'user_id' {MIXED[one, other]};"
        with pytest.raises(tc.InputError, match=message):
            read_shards(engine, files[0], columns, files[1])
        return
    log = read_shards(engine, files[0], columns, files[1])
    found = [sent for shard in list_shards(log) for sent in list_sent(shard)]
    known = set(map(str, IDS[one][0].to_pylist()))
    wanted = list(zip(IDS[other][0].to_pylist(), "ab", strict=True))
    expected = [(str(user), value) for user, value in wanted if str(user) in known]
    assert sorted((str(user), kind) for user, _, kind in found) == [
        (user, str({"what": value})) for user, value in expected
    ]
    assert log.facts.unknown_requests == 2 - len(expected)


def test_the_place_is_never_published():
    rows = to_table(draw_rows())
    locations, requests = map(to_table, split(draw_rows()))
    with_place = requests.append_column("x", pa.array([1.0] * len(requests)))
    for message, source, columns, sent in (
        ("'x' also holds the user", locations, LogColumns(requests=("x",)), with_place),
        (
            "'x' also holds the user",
            rows,
            LogColumns(requests=("x",), is_report="is_report"),
            None,
        ),
        ("'x' is to say which rows", rows, LogColumns(is_report="x"), None),
    ):
        with pytest.raises(tc.OptionError, match=message):
            read_in_memory(source, columns, sent)


@pytest.mark.parametrize("name", ["user_id", "time", "lon", "lat", "what"])
def test_a_column_has_one_purpose(name):
    with pytest.raises(tc.OptionError, match=f"column '{name}' is to say which rows are location"):
        LogColumns("user_id", "time", "lon", "lat", requests=("what",), is_report=name)


def test_one_of_request_log_and_is_report():
    table = to_table(draw_rows())
    with pytest.raises(tc.OptionError, match=r"expected one of them; leave out request_log="):
        read_in_memory(table, MARKED, table)


def test_messages_name_the_request_log(tmp_path):
    locations, requests = split(draw_rows())
    place = to_table(locations)
    with pytest.raises(tc.InputError, match=r"^request log: .*gone.csv: no log found"):
        read_in_memory(place, COLUMNS, tmp_path / "gone.csv")
    path = write(tmp_path / "requests.csv", [{**row, "what": "a"} for row in requests])
    with pytest.raises(tc.InputError, match=r"^request log: .*requests.csv: there is no column 'x"):
        read_in_memory(place, LogColumns(requests=("xyz",)), path)
    path.write_text("user_id,time,what,size\nuser-1,2024-05-01 08:00,a,1\nuser-1,soon,a,1\n")
    with pytest.raises(tc.InputError, match=r"^request log: .*requests.csv: row 2: column 'time'"):
        read_in_memory(place, COLUMNS, path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_releases_are_the_same_whoever_holds_the_shards(tmp_path, kind):
    rows = draw_rows(3, num_users=30)
    locations, requests = split(rows)
    paths = [write(tmp_path / f"a.{kind}", locations), write(tmp_path / f"b.{kind}", requests)]
    marked = write(tmp_path / f"c.{kind}", rows)
    options = {"length": 2, "algorithm": "traj-anon"}
    asked = Options(k=3, **options)
    release = anonymize(paths[0], 3, columns=COLUMNS, request_log=paths[1], **options)
    release.write(tmp_path / "memory")
    anonymize(marked, 3, columns=MARKED, **options).write(tmp_path / "marked")
    anonymize_files(
        paths[0], tmp_path / "folder", None, COLUMNS, asked, request_log=paths[1], memory="1GiB"
    )
    for name in ("bundles.parquet", "requests.parquet", "manifest.json"):
        expected = (tmp_path / "memory" / name).read_bytes()
        assert (tmp_path / "folder" / name).read_bytes() == expected
        if name != "manifest.json":
            assert (tmp_path / "marked" / name).read_bytes() == expected
    assert pq.read_table(tmp_path / "memory" / "requests.parquet").num_rows > 0
