"""The ingest report, against plain loops."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import trajcloak as tc
from reference import completion, ingest
from runs import anonymize
from small_logs import Row, draw_log, publish_rows, read_rows
from trajcloak.kernels.threads import build_slices
from trajcloak.trajectories.reports import NUM_BINS, compare_reports, round_gap
from zoo import first_quick


@pytest.mark.parametrize("first", first_quick(range(0, 200, 50), 1))
def test_reports_are_those_of_plain_loops(first):
    compared = 0
    for seed in range(first, first + 50):
        drawn = draw_log(seed)
        try:
            published = publish_rows(drawn.rows, drawn.k, **drawn.run_options)
        except tc.TrajcloakError:
            continue
        done = completion.complete(drawn.rows, k=drawn.k, **drawn.options)
        max_gap = drawn.options["max_gap"] or 2 * done.every
        expected = ingest.report(drawn.rows, done, max_gap, drawn.options["missing"])
        assert published.manifest["ingest"] == expected | {"crs": None, "zone": None}
        compared += 1
    assert compared >= 20


def test_a_full_grid_has_the_report_of_any_other_log():
    rows = [Row(f"u{user}", time, user, 1) for user in range(3) for time in range(0, 40, 10)]
    full = publish_rows(rows, 2).manifest["ingest"]
    again = publish_rows([*rows, rows[-1]], 2, rows_alike=True).manifest["ingest"]
    assert full | {"rows": 13, "repeated": 1} == again
    assert full["interval"] == {"p5": 10, "median": 10, "p95": 10}
    assert full["user_instants"] == {"reported": 12, "interpolated": 0, "held": 0, "missing": 0}


def test_times_are_text_where_the_log_has_timestamps():
    begin = datetime(2024, 5, 1, tzinfo=UTC)
    rows = [Row(user, begin.replace(minute=m), 1, 1) for user in "ab" for m in (0, 1, 5)]
    result = anonymize(read_rows(rows, pa.timestamp("us", "UTC")), 2, every="60s", max_gap="5m")
    found = result.manifest["ingest"]
    assert (found["start"], found["zone"]) == ("2024-05-01T00:00:00.000000Z", "UTC")
    assert found["interval"] == {"p5": "60s", "median": "60s", "p95": "240s"}


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_neither_threads_nor_the_order_of_rows_change_a_report(threads):
    rng = np.random.default_rng(3)
    rows = [
        Row(f"u{user}", int(time), user, user)
        for user in range(3)
        for time in np.sort(rng.integers(0, 500, 60))
    ]
    expected = compare_reports(read_rows(rows), 9, 1)
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    for log in (read_rows(rows), read_rows(shuffled)):
        actual = compare_reports(log, 9, threads)
        assert actual.gaps.tolist() == expected.gaps.tolist()
        assert (actual.num_long, actual.num_repeated) == (expected.num_long, expected.num_repeated)
    assert expected.num_repeated > 0
    assert len(build_slices(len(rows), 7)) == 7


@pytest.mark.parametrize("gap", [0, 1, 99, 100, 104, 105, 994, 995, 60_000_000, 2**62])
def test_gaps_are_rounded_to_two_digits(gap):
    assert round_gap(gap) == ingest.two_digits(gap)


def test_every_gap_has_a_bin():
    assert round_gap(2**63 - 1) == 9_200_000_000_000_000_000
    assert NUM_BINS > 1000
