"""Windows are put together as memory allows, and refused if they do not fit."""

import re

import numpy as np
import pytest

import trajcloak as tc
from bounded.runs import draw_run
from small_logs import Row, new_folder, read_rows
from trajcloak.bounded import chapters
from trajcloak.bounded.chapters import check_cut, plan_chapters, select_rows
from trajcloak.pipeline import prepare

LENGTH = 5


def prepared_log(num_users=20, num_instants=50, **options):
    rows = [Row(u, t, u, t % 3) for u in range(num_users) for t in range(num_instants)]
    return prepare(read_rows(rows), tc.Options(k=2, length=LENGTH, **options), threads=1)


def test_chapters_hold_all_windows_and_what_is_around_them():
    prepared = prepared_log()
    for memory in (10**9, 10**5, 5 * 10**4):
        plan = plan_chapters(prepared, memory)
        assert [window for chapter in plan for window in chapter.windows] == list(range(10))
        for chapter in plan:
            assert chapter.start == LENGTH * chapter.windows[0] - 2
            assert chapter.stop == LENGTH * (chapter.windows[-1] + 1) + 2
    assert len(plan_chapters(prepared, 10**9)) == 1
    assert len(plan) > 1


def test_windows_without_reports_are_left_out():
    rows = [Row(u, t, u, 0) for u in range(5) for t in (0, 1, 2, 99)]
    asked = tc.Options(k=2, length=LENGTH, every="1")
    plan = plan_chapters(prepare(read_rows(rows), asked, threads=1), 10**9)
    assert [chapter.windows for chapter in plan] == [[0, 19]]


def test_less_memory_makes_smaller_chapters():
    prepared = prepared_log()
    counts = [len(plan_chapters(prepared, memory)) for memory in range(40_000, 200_000, 5_000)]
    assert counts == sorted(counts, reverse=True)


def test_a_window_that_does_not_fit_is_refused():
    expected = "window 0 needs about 0 MiB .* pass a smaller --length, or a larger --memory"
    with pytest.raises(tc.OptionError, match=expected):
        plan_chapters(prepared_log(), 10_000)


def test_a_log_that_is_one_window_is_refused_before_it_is_read():
    asked = tc.Options(k=2)
    check_cut(asked, 1000, 10**6)
    with pytest.raises(tc.OptionError, match=r"the 10,000 rows .* pass --length"):
        check_cut(asked, 10_000, 10**6)
    check_cut(tc.Options(k=2, length=5), 10_000, 10**6)
    check_cut(tc.Options(k=2, align="day"), 10_000, 10**6)


@pytest.mark.parametrize("seed", range(30))
def test_rows_of_a_chapter_are_those_a_slow_twin_chooses(seed):
    with new_folder() as folder:
        drawn = draw_run(seed, folder)
        try:
            log = tc.read_log(drawn.source, drawn.columns, threads=1)
            prepared = prepare(log, tc.Options(k=drawn.k, **drawn.options), threads=1)
        except tc.TrajcloakError:
            return
    rng = np.random.default_rng(seed)
    start = int(rng.integers(-3, prepared.grid.num_instants + 1))
    stop = start + int(rng.integers(1, 6))
    chapter = chapters.Chapter((0,), start, stop)
    [(_, rows)] = select_rows(log, prepared, [chapter])
    low, high = (prepared.grid.origin + i * prepared.grid.every for i in (start, stop))
    wanted = set(np.flatnonzero((log.time >= low) & (log.time < high)).tolist())
    assert wanted <= set(rows.tolist())
    extra = set(rows.tolist()) - wanted
    if prepared.asked.missing != "hold":
        assert not extra
        return
    for user in range(log.num_users):
        mine = np.flatnonzero(log.user == user)
        earlier, later = mine[log.time[mine] < low], mine[log.time[mine] >= high]
        times = sorted(int(log.time[row]) for row in extra & set(mine.tolist()))
        expected = [int(log.time[earlier].max())] if len(earlier) else []
        expected += [int(log.time[later].min())] if len(later) else []
        assert times == expected


def test_the_estimate_is_in_the_message():
    with pytest.raises(tc.OptionError) as error:
        plan_chapters(prepared_log(), 10_000)
    assert re.search(r"0 MiB are left for it", str(error.value))
