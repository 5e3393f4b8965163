"""Logs whose columns have other types than usual: read by the audit as by the product."""

from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import trajcloak as tc
from auditor.released import draw_rows
from trajcloak.auditor.audited_log_files import _read_truths


def to_text(column):
    return pc.cast(column, pa.string())


def to_days(instants):
    return pa.array([date(2024, 5, 1) + timedelta(days=i) for i in instants.to_pylist()])


CHANGES = {
    "dictionaries": ("user_id", lambda ids: ids.dictionary_encode()),
    "repeated values": ("user_id", pc.run_end_encode),
    "large text": ("user_id", lambda ids: to_text(ids).cast(pa.large_string())),
    "views of text": ("user_id", lambda ids: to_text(ids).cast(pa.string_view())),
    "small integers": ("user_id", lambda ids: ids.cast(pa.uint32())),
    "repeated numbers": ("y", pc.run_end_encode),
    "days": ("time", to_days),
    "large text of requests": ("what", lambda words: words.cast(pa.large_string())),
    "repeated requests": ("what", pc.run_end_encode),
}


def write_log(path, name, change):
    """Write a log of which one column is changed."""
    table = pa.Table.from_pylist(draw_rows(1, skipping=0.1))
    column = change(table[name].combine_chunks())
    table = table.set_column(table.column_names.index(name), name, column)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("case", CHANGES)
def test_the_audit_reads_them_as_the_product_does(tmp_path, case):
    log = write_log(tmp_path / "log.arrow", *CHANGES[case])
    gap = "3d" if case == "days" else "3"
    every = "1d" if case == "days" else None
    made = tc.anonymize(
        log, k=3, requests=["what"], every=every, max_gap=gap, length=4, rows_alike=True
    )
    release, policy = tmp_path / "release", tmp_path / "policy.parquet"
    made.save(release, policy=policy)
    report = tc.audit(log, release, policy)
    assert report.passed, [check for check in report.checks if not check.passed]


def put_null(column):
    return pa.array([None, *column.to_pylist()[1:]], column.type)


REFUSED = {
    "ids of numbers": ("user_id", lambda ids: ids.cast(pa.float64()), "expected integers or text"),
    "a missing id": ("user_id", put_null, "is empty in a row"),
    "a missing place": ("x", put_null, "is empty in a row"),
    "times of numbers": ("time", lambda times: times.cast(pa.float64()), "times of different"),
    "places of text": ("y", lambda y: pa.array(["north"] * len(y)), "that are no numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_log_that_is_not_that_of_the_release(tmp_path, case):
    log = write_log(tmp_path / "log.arrow", "what", lambda words: words)
    release, policy = tmp_path / "release", tmp_path / "policy.parquet"
    made = tc.anonymize(log, k=3, requests=["what"], max_gap="3", length=4, rows_alike=True)
    made.save(release, policy=policy)
    name, change, message = REFUSED[case]
    other = write_log(tmp_path / "other.arrow", name, change)
    with pytest.raises(tc.InputError, match=message):
        tc.audit(other, release, policy)


@pytest.mark.parametrize("wrong", [None, "2", "yes", ""])
def test_every_row_says_whether_it_is_a_location_report(wrong):
    right = ["true", "FALSE", "1", "0"]
    assert _read_truths(pa.array(right), "is").tolist() == [True, False, True, False]
    with pytest.raises(tc.InputError, match="column 'is' does not say of every row"):
        _read_truths(pa.array([*right, wrong]), "is")
