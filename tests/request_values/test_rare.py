"""Values that few users sent: kept, dropped or replaced, and counted."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from small_logs import UNIT_CELLS, new_folder, read_published
from trajcloak.auditor import audit
from trajcloak.requests import RareColumn
from zoo import examples

NAMES = ("what", "size")
COLUMNS = tc.LogColumns(requests=NAMES)
CELLS = {**UNIT_CELLS, "algorithm": "traj-anon"}


def draw_rows(seed, num_users=9, length=4):
    """Users at random places who send values, some of them rare; some users leave early."""
    rng = np.random.default_rng(seed)
    text = ["a", "a", "b", "c", "other", "d", None]
    rows = []
    for user in range(num_users):
        stop = length if rng.random() < 0.8 else int(rng.integers(1, length))
        for instant in range(stop):
            x, y = rng.integers(0, 16, 2).tolist()
            for _ in range(int(rng.integers(1, 3))):
                what = text[rng.integers(len(text))]
                size = None if rng.random() < 0.4 else int(rng.integers(0, 4))
                rows.append((f"user-{user:03d}", instant, float(x), float(y), what, size))
    return rows


def write(path, rows):
    user, time, x, y, what, size = map(list, zip(*rows, strict=True))
    columns = {"user_id": user, "time": time, "x": x, "y": y}
    columns |= {"what": pa.array(what, pa.string()), "size": pa.array(size, pa.int8())}
    pq.write_table(pa.table(columns), path)
    return path


def run(folder, rows, k, **options):
    """Publish rows and audit the release; returns the published requests, and the result."""
    log = write(folder / "log.parquet", rows)
    result = tc.anonymize(tc.read_log(log, COLUMNS), k, threads=1, **CELLS, **options)
    result.write(folder / "release", folder / "policy.parquet")
    report = audit(log, folder / "release", folder / "policy.parquet", COLUMNS)
    assert report.passed, [check for check in report.checks if not check.passed]
    return read_published(folder), result


def treat(rows, rule, below):
    """What becomes of the request of each row: None if it is withheld, or no request."""
    users = [{}, {}]
    for user, *_, what, size in rows:
        for counts, value in zip(users, (what, size), strict=True):
            counts.setdefault(value, set()).add(user)
    treated = []
    for *_, what, size in rows:
        values = [what, size]
        rare = [v is not None and len(users[i][v]) < below for i, v in enumerate(values)]
        if rule == "drop" and any(rare):
            values = [None, None]
        if rule == "other":
            values = [("other", None)[i] if rare[i] else value for i, value in enumerate(values)]
        treated.append(None if values == [None, None] else tuple(values))
    return treated


def list_expected(rows, treated, published, length):
    bundle = {
        (row["window"], row["user_id"]): row["bundle_id"] for row in published.policy.to_pylist()
    }
    return {
        (bundle[window, user], time, request)
        for (user, time, *_), request in zip(rows, treated, strict=True)
        if request is not None and (window := time // length, user) in bundle
    }


@examples(25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["keep", "drop", "other"]),
    st.none() | st.integers(1, 6),
    st.sampled_from([2, 4]),
)
def test_exactly_the_expected_requests_are_published(seed, rule, below, length):
    rows = draw_rows(seed)
    options = {"length": length} | ({} if below is None else {"rare_below": below})
    with new_folder() as folder, new_folder() as other:
        published, _ = run(folder, rows, 2, rare=rule, **options)
        kept, _ = run(other, rows, 2, **options)
    treated = treat(rows, rule, below or 2)
    found = [
        (row["bundle_id"], row["instant"], (row["what"], row["size"]))
        for row in published.requests.to_pylist()
    ]
    assert len(found) == len(set(found))
    assert set(found) == list_expected(rows, treated, published, length)
    assert published.bundles.equals(kept.bundles), "requests decide who is bundled with whom"
    assert published.policy.equals(kept.policy)
    _check_counts(rows, treated, published, length)


def _check_counts(rows, treated, published, length):
    members = {(row["window"], row["user_id"]) for row in published.policy.to_pylist()}
    gone = changed = 0
    for (user, time, *_, what, size), request in zip(rows, treated, strict=True):
        if (what, size) != (None, None) and (time // length, user) in members:
            gone += request is None
            changed += request is not None and request != (what, size)
    manifest = published.manifest
    assert manifest["withheld"]["why"]["rare_value"] == {"user_windows": 0, "requests": gone}
    # A rare text "other" is replaced by itself.
    assert manifest["generalised"] >= changed
    if not any(what == "other" for *_, what, _ in rows):
        assert manifest["generalised"] == changed


def many_rows():
    """Ten users who send common values; one, ``rare`` in both windows, another in one."""
    rows = [
        (f"user-{user}", instant, float(user), 1.0, "common", 1)
        for user in range(10)
        for instant in range(4)
    ]
    rows[0] = (*rows[0][:4], "rare", 7)
    rows[3] = (*rows[3][:4], "rare", 1)
    rows[5] = (*rows[5][:4], "once", 1)
    return rows


@pytest.mark.parametrize("rule", ["keep", "drop", "other"])
def test_the_order_of_rows_does_not_show(rule):
    rows = draw_rows(5)
    with new_folder() as folder, new_folder() as other:
        published, _ = run(folder, rows, 2, rare=rule, length=2)
        shuffled, _ = run(other, rows[::-1], 2, rare=rule, length=2)
    assert published.files == shuffled.files


@pytest.mark.parametrize("rule", ["drop", "other"])
def test_a_log_of_text(tmp_path, rule):
    """Attributes of text files, which become numbers when the whole log is known."""
    table = pq.read_table(write(tmp_path / "log.parquet", draw_rows(6)))
    pyarrow.csv.write_csv(table, tmp_path / "log.csv")
    log = tc.read_log(tmp_path / "log.csv", COLUMNS)
    files = tmp_path / "release", tmp_path / "policy.parquet"
    result = tc.anonymize(log, 2, rare=rule, rare_below=5, **CELLS)
    result.write(*files)
    assert pq.read_table(files[0] / "requests.parquet").schema.field("size").type == pa.int64()
    assert result.manifest["requests"] > 0
    assert audit(tmp_path / "log.csv", *files, COLUMNS).passed


def test_rare_values_are_counted(tmp_path):
    _, result = run(tmp_path, many_rows(), 3, length=2)
    assert result.rare == (RareColumn("what", 2, 3, 1), RareColumn("size", 1, 1, 0))
    assert result.manifest["parameters"]["rare"] == "keep"
    assert result.manifest["parameters"]["rare_below"] == 3
    assert result.manifest["generalised"] == 0


def test_values_of_dropped_rows_are_not_counted(tmp_path):
    rows = [(*row[:4], "common", 1) for row in many_rows()]
    rows += [("user-0", 9, place, 1.0, "dropped", 8) for place in (3.0, 4.0)]
    columns = tc.LogColumns(requests=NAMES, drop=("conflict",))
    log = tc.read_log(write(tmp_path / "log.parquet", rows), columns)
    result = tc.anonymize(log, 3, **CELLS)
    assert log.dropped == {"conflict": 2}
    assert result.rare == ()
    assert result.kinds.to_pylist() == [{"what": "common", "size": 1}]


def test_no_value_is_rare(tmp_path):
    _, result = run(tmp_path, many_rows(), 3, rare="drop", rare_below=1)
    assert result.rare == ()
    assert result.manifest["withheld"]["requests"] == 0


def test_all_values_are_rare(tmp_path):
    published, result = run(tmp_path, many_rows(), 3, rare="drop", rare_below=11)
    assert published.requests.num_rows == 0
    assert result.manifest["withheld"]["why"]["rare_value"]["requests"] == 40


@pytest.mark.parametrize("rule", ["drop", "other"])
def test_dropped_values_leave_no_trace(tmp_path, rule):
    published, _ = run(tmp_path, many_rows(), 3, rare=rule)
    assert not any(b"once" in content for content in published.files.values())
    assert set(published.requests["what"].to_pylist()) == (
        {"common"} if rule == "drop" else {"common", "other"}
    )
    sizes = published.requests["size"].to_pylist()
    assert set(sizes) == ({1} if rule == "drop" else {1, None})


@pytest.mark.parametrize("rule", ["drop", "other"])
@pytest.mark.parametrize("published_by", ["keep", "drop", "other"])
def test_the_audit_finds_rare_values(tmp_path, rule, published_by):
    """A release whose manifest is wrong about what became of rare values."""
    run(tmp_path, many_rows(), 3, rare=published_by)
    path = tmp_path / "release" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["parameters"]["rare"] = rule
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    files = tmp_path / "log.parquet", tmp_path / "release", tmp_path / "policy.parquet"
    failed = {check.name for check in audit(*files, COLUMNS).checks if not check.passed}
    assert ("rare values" in failed) == (published_by == "keep")
    assert ("requests" in failed) == (published_by != rule)
    assert bool(failed) == (published_by != rule)


@pytest.mark.parametrize("rule", ["drop", "other"])
def test_rare_values_may_look_like_anything(tmp_path, rule):
    """Rare values are not published here; values that many users sent are still checked."""
    rows = many_rows()
    rows[0] = (*rows[0][:4], "someone@mail.example", 1)
    with pytest.raises(tc.InputError, match=r"e-mail addresses \(1 distinct values in 1 requests"):
        run(tmp_path, rows, 3)
    published, _ = run(tmp_path, rows, 3, rare=rule)
    assert not any(b"someone@" in content for content in published.files.values())
    with pytest.raises(tc.InputError, match="e-mail addresses"):
        run(tmp_path, [(*row[:4], "all@mail.example", 1) for row in rows], 3, rare=rule)


def test_bad_options():
    with pytest.raises(tc.OptionError, match="rare is 'hide'; expected one of keep, drop, other"):
        tc.Options(k=2, rare="hide")
    for below in (0, -1, 1.5, True):
        with pytest.raises(tc.OptionError, match=r"rare_below is .*; pass another --rare-below"):
            tc.Options(k=2, rare_below=below)
