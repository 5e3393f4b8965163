"""Proposed settings for a log, and the shares that they would keep, against the slow twin."""

import numpy as np
import pyarrow as pa
import pytest

import trajcloak as tc
from reference import completion
from runs import anonymize
from small_logs import Row, draw_log, read_rows
from trajcloak.inspection import inspect_rows

MINUTE = 60 * 10**6


def count_kept(rows, every, max_gap, length):
    """Users and rows that take part, by plain loops."""
    done = completion.complete(rows, k=0, every=every, max_gap=max_gap, length=length)
    users = {user for window in done.windows for user in window.participants}
    kept = []
    for row in rows:
        instant = completion.instant_of(row.time, done.origin, every)
        if row.time >= done.origin and row.user in done.windows[instant // length].participants:
            kept.append(row)
    return len(users), len(kept)


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_shares_are_those_of_the_slow_twin(first):
    for seed in range(first, first + 50):
        rows = draw_log(seed).rows
        log = read_rows(rows)
        found = inspect_rows(log, threads=1)
        assert found.proposed in found.by_every
        assert found.proposed in found.by_max_gap
        assert found.proposed in found.by_length
        for choice in [*found.by_every, *found.by_max_gap, *found.by_length]:
            users, reports = count_kept(rows, choice.every, choice.max_gap, choice.length)
            assert choice.users == users / log.num_users
            assert choice.reports == reports / len(rows)
            assert choice.sets is choice.rows is choice.members is None


def test_the_report_is_that_of_a_run():
    for seed in range(60):
        drawn = draw_log(seed)
        log = read_rows(drawn.rows)
        found = inspect_rows(log).ingest.to_dict()
        proposed = inspect_rows(log).proposed
        options = {"every": str(proposed.every), "max_gap": str(proposed.max_gap)}
        try:
            result = anonymize(log, 2, length=proposed.length, rows_alike=True, **options)
        except tc.NotEnoughUsersError:
            continue
        assert result.manifest["ingest"] == found


def draw_irregular(num_users=40, num_reports=200, seed=1):
    """Users who report about every minute, with breaks."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(num_users):
        gaps = rng.lognormal(np.log(50), 0.5, num_reports) * 10**6
        gaps[rng.random(num_reports) < 0.01] = 3600 * 10**6
        times = np.cumsum(gaps).astype(int) + 10**15
        rows += [Row(f"u{user}", int(time), 1, 1, "a") for time in times]
    return rows


def test_an_irregular_log_is_given_round_numbers():
    log = read_rows(draw_irregular(), pa.timestamp("us"))
    found = inspect_rows(log)
    assert found.proposed.every == "60s"
    # Breaks of an hour are not bridged: no gap keeps 95% of the reports, and this the most.
    assert found.proposed.max_gap == "600s"
    assert found.ingest.interval["median"] in ("48s", "49s", "50s", "51s", "52s")
    shares = [choice.reports for choice in found.by_length]
    assert shares == sorted(shares, reverse=True)
    assert found.proposed.reports > 0.5
    # Of a regular log, its own grid.
    rows = [Row(f"u{u}", m * MINUTE, 1, 1) for u in range(3) for m in range(50)]
    assert inspect_rows(read_rows(rows, pa.timestamp("us"))).proposed.every == "60s"


def check_gap(found):
    """The least gap of the table that keeps 95% of the reports, or else the best."""
    kept = [(choice.reports, choice.max_gap) for choice in found.by_max_gap]
    enough = [gap for share, gap in kept if share >= 0.95]
    best = [gap for share, gap in kept if share == max(kept)[0]]
    assert found.proposed.max_gap == (enough or best)[0]


def test_the_proposed_gap_is_the_least_that_keeps_most():
    for seed in range(60):
        check_gap(inspect_rows(read_rows(draw_log(seed).rows)))
    # 4% of the gaps are longer than twice the step; few windows would be without one.
    rows = [Row(f"u{u}", t, 1, 1) for u in range(3) for t in range(100) if t % 25 not in (1, 2)]
    found = inspect_rows(read_rows(rows), length=50)
    assert found.proposed.max_gap == 3
    assert found.proposed.reports == 1
    check_gap(found)
    # One of fifty users has such a gap: the rest are enough.
    rows = [Row(f"u{u}", t, 1, 1) for u in range(50) for t in range(100) if u or t not in (1, 2)]
    found = inspect_rows(read_rows(rows), length=50)
    assert [choice.reports == 1 for choice in found.by_max_gap[:2]] == [False, True]
    assert found.proposed.max_gap == 2


def test_windows_are_as_long_as_most_gaps_allow():
    # An eighth of the gaps is longer than the others.
    rows = [Row(f"u{u}", t, 1, 1) for u in range(3) for t in range(100) if t % 10 not in (1, 2)]
    found = inspect_rows(read_rows(rows))
    assert found.proposed.length == max(choice.length for choice in found.by_length)
    assert found.proposed.reports == 1


def test_values_that_are_given_are_kept():
    log = read_rows(draw_irregular(), pa.timestamp("us"))
    found = inspect_rows(log, every="2m", max_gap="7m", length=4)
    assert (found.proposed.every, found.proposed.max_gap, found.proposed.length) == (
        "120s",
        "420s",
        4,
    )
    with pytest.raises(tc.OptionError, match="every="):
        inspect_rows(log, every="soon")


@pytest.mark.parametrize(
    ("name", "value"), [("k", 0), ("length", 0), ("length", -1), ("members", 0)]
)
def test_settings_that_are_none_are_refused(name, value):
    log = read_rows([Row("a", 0, 1.0, 2.0), Row("b", 0, 2.0, 3.0)])
    with pytest.raises(tc.OptionError, match=f"{name} is {value}"):
        inspect_rows(log, **{name: value})


def test_one_report():
    found = inspect_rows(read_rows([Row("a", 5, 1, 1)]))
    assert found.ingest.interval is None
    assert found.proposed.users == found.proposed.reports == 1
    assert found.proposed.sets is None


def draw_seldom(seed, num_users=60, share=0.4):
    """Users who stay near their home and report at some of 40 instants; most carry a request."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, 900, (num_users, 2))
    return [
        Row(f"u{u}", t, *(home[u] + rng.integers(0, 9, 2)).tolist(), "ab"[rng.integers(2)])
        for u in range(num_users)
        for t in range(40)
        if rng.random() < share
    ]


@pytest.mark.parametrize("seed", range(6))
def test_sets_are_those_of_a_release(seed):
    log = read_rows(draw_seldom(seed))
    found = inspect_rows(log, k=3, every="1", length=10, members=(None, 5)[seed % 2], threads=1)
    choices = [found.proposed, *found.by_members, *found.by_max_gap]
    for choice in choices:
        try:
            release = anonymize(
                log, 3, every=str(choice.every), max_gap=str(choice.max_gap), length=choice.length,
                members=choice.members, algorithm="traj-anon", rows_alike=True, rare="keep",
            )  # fmt: skip
        except tc.NotEnoughUsersError:
            assert choice.rows == 0
            continue
        num_sets = sum(len(w.sizes) * (w.stop - w.start) for w in release.windows)
        assert choice.sets == pytest.approx(1 - release.manifest["withheld"]["sets"] / num_sets)
        # Every row carries a request.
        figures = release.figures
        kept = figures["published"] + figures["equal"]
        assert choice.rows == pytest.approx(kept / log.num_rows)


def test_a_proposal_keeps_most_of_what_any_choice_keeps():
    for seed in range(4):
        log = read_rows(draw_seldom(seed, share=(0.15, 0.5)[seed % 2]))
        found = inspect_rows(log, k=3)
        tried = [*found.by_every, *found.by_max_gap, *found.by_length, *found.by_members]
        assert found.proposed in tried
        assert found.proposed.rows > 0.5 * max(choice.rows for choice in tried)


def test_a_dense_log_with_long_breaks_keeps_short_instants():
    """Instants as long as the breaks between shifts would keep more rows, and say little."""
    rng = np.random.default_rng(3)
    rows = []
    for user in range(40):
        for day in range(20):
            times = 1440 * day + rng.integers(0, 10) + np.cumsum(rng.integers(1, 4, 20))
            rows += [Row(f"u{user}", int(t), *rng.integers(0, 99, 2).tolist()) for t in times]
    found = inspect_rows(read_rows(rows), k=5, threads=1)
    assert found.proposed.every in (2, 5)
    assert found.proposed.rows > 0.3


def test_requests_are_never_looked_at():
    rows = draw_seldom(1)
    found = [
        inspect_rows(read_rows(changed), k=3)
        for changed in (
            rows,
            [row._replace(request=None) for row in rows],
            [row._replace(request=row.user) for row in rows],
        )
    ]
    assert found[0].to_dict() == found[1].to_dict() == found[2].to_dict()


def test_a_schedule_with_exceptions_is_told():
    rows = [Row(f"u{u}", t, u, t) for u in range(9) for t in range(0, 40, 4)]
    assert inspect_rows(read_rows(rows)).schedule.odd_times == 0
    rows.append(rows[-1]._replace(time=35))
    assert inspect_rows(read_rows(rows)).schedule.odd_times == 2
