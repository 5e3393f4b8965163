"""Requests that are not shown do not show in columns, types or refusals, whatever holds the log."""

import csv
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import UNIT_CELLS, new_folder
from trajcloak.options import LogColumns

ROWS = [
    *((user, 0, float(i % 3 + 9 * (i > 2)), 1.0) for i, user in enumerate("abcdef")),
    ("c", 10, 2.0, 1.0),
    ("f", 10, 11.0, 1.0),
]
"""Two bundles of three users; at the second instant each has a single row."""

UNSHOWN = (("c", 10), ("f", 10))


def write_frame(records, types, path):
    """Types follow from the values."""
    return pd.DataFrame(records)


def write_table(records, types, path):
    types = {"time": pa.int64(), "x": pa.float64(), "y": pa.float64(), **types}
    names = records[0]
    return pa.table(
        {
            name: pa.array([record[name] for record in records], types.get(name, pa.string()))
            for name in names
        }
    )


def write_parquet(records, types, path):
    pq.write_table(write_table(records, types, path), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def write_csv(records, types, path):
    path = path.with_suffix(".csv")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, records[0])
        writer.writeheader()
        writer.writerows(records)
    return path


def write_lines(records, types, path):
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def run(write, sent, types=None, names=("what",), **options):
    """Publish rows with requests, by user and time; returns all bytes, or the error."""
    nothing = {"what": None}
    records = [
        {"user_id": user, "time": time, "x": x, "y": y, **sent.get((user, time), nothing)}
        for user, time, x, y in ROWS
    ]
    more = {"every": "10", "missing": "hold", "rows_alike": True, "rare": "keep", **UNIT_CELLS}
    with new_folder() as folder:
        source = write(records, types or {}, folder / "log")
        try:
            columns = LogColumns(requests=names)
            release = anonymize(source, 2, columns=columns, **{**more, **options})
            release.write(folder / "release")
        except tc.TrajcloakError as error:
            return type(error).__name__, str(error).replace(str(folder), "")
        return {file.name: file.read_bytes() for file in (folder / "release").iterdir()}


SLOW_WRITERS = [
    pytest.param(write, marks=pytest.mark.slow)
    for write in (write_table, write_parquet, write_lines)
]


@pytest.mark.parametrize("shown", [None, {("a", 0): {"what": "v"}, ("d", 0): {"what": "v"}}])
@pytest.mark.parametrize("rare", ["keep", "drop", "other"])
@pytest.mark.parametrize("write", [write_frame, write_csv, *SLOW_WRITERS])
def test_texts(write, rare, shown):
    unshown = [None, "v", "7", "1.5", "(other)", "me@post.org", "x" * 300]
    found = [
        run(write, {**(shown or {}), place: {"what": text}}, rare=rare)
        for text in unshown
        for place in UNSHOWN
    ]
    assert isinstance(found[0], dict)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("write", [write_frame, write_table, write_csv, write_lines])
def test_a_type_is_not_told_by_values_that_are_not_shown(write):
    """Where nothing is shown a column is text, whatever the type of the log's column is."""
    values = {pa.int64(): 7, pa.float64(): 1.5, pa.bool_(): True, pa.string(): "v"}
    found = [
        run(write, {UNSHOWN[0]: {"what": value}} if value is not None else {}, {"what": type_})
        for type_, value in [(pa.null(), None), *values.items()]
    ]
    assert isinstance(found[0], dict)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("options", [{"rare": "other"}, {"vocabulary": {"what": ["v"]}}])
def test_bytes_are_refused_by_their_type(options):
    found = [
        run(write_table, sent, {"what": pa.binary()}, **options)
        for sent in ({}, {("a", 0): {"what": b"v"}}, {UNSHOWN[0]: {"what": b"\xff"}})
    ]
    assert "is of type binary" in found[0][1]
    assert all(one == found[0] for one in found)


def test_objects_in_lines_are_published_by_the_names_of_their_fields():
    """Which fields there are could tell of a request that is not shown."""
    sent = {("a", 0): {"what": {"p": "v"}}}
    more = {**sent, UNSHOWN[0]: {"what": {"p": "v", "q": "w"}}}
    named = [run(write_lines, given, names=("what.p",)) for given in (sent, more)]
    assert isinstance(named[0], dict)
    assert named[0] == named[1]
    assert "is a field of objects" in run(write_lines, sent)[1]
