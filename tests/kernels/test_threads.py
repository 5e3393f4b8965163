import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.errors import OptionError
from trajcloak.kernels.threads import (
    build_slices,
    choose_threads,
    default_threads,
    run_all,
    run_sliced,
)


@given(total=st.integers(0, 2000), parts=st.integers(1, 70))
def test_slices_cover_the_range_evenly(total, parts):
    slices = build_slices(total, parts)
    assert [i for start, stop in slices for i in range(start, stop)] == list(range(total))
    assert len(slices) <= parts
    sizes = [stop - start for start, stop in slices]
    assert max(sizes) - min(sizes) <= 1
    assert total == 0 or (min(sizes) >= 1 and len(slices) == min(parts, total))


def test_an_empty_range_is_one_empty_slice():
    assert build_slices(0, 4) == [(0, 0)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_of_the_jobs(threads):
    jobs = [(i, i + 1) for i in range(40)]
    assert run_all(lambda a, b: (a, b), jobs, threads) == jobs
    assert run_all(lambda a, b: a * b, iter(jobs), threads) == [a * b for a, b in jobs]
    assert run_all(lambda: 1, [], threads) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_slices_come_in_order(threads):
    results = run_sliced(lambda start, stop: list(range(start, stop)), 10, threads)
    assert [i for part in results for i in part] == list(range(10))
    assert len(results) == threads


def test_jobs_run_side_by_side():
    # Each waits for the other; one after the other, the first would time out.
    barrier = threading.Barrier(2)
    assert sorted(run_all(lambda _: barrier.wait(timeout=60), [(0,), (1,)], 2)) == [0, 1]


def test_one_thread_is_the_caller_itself():
    caller = threading.get_ident()
    assert run_all(lambda _: threading.get_ident(), [(0,), (1,)], 1) == [caller] * 2
    assert run_all(lambda: threading.get_ident(), [()], 8) == [caller]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_job_reaches_the_caller(threads):
    def fail_at_3(number):
        if number == 3:
            raise LookupError("three")
        return number

    with pytest.raises(LookupError, match="three"):
        run_all(fail_at_3, [(i,) for i in range(6)], threads)


def test_default_is_at_least_one():
    assert default_threads() >= 1


def test_threads_are_those_asked_for_or_all_cores():
    assert choose_threads(3) == 3
    assert choose_threads(None) == default_threads() >= 1


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_a_bad_number_of_threads_is_refused(threads):
    with pytest.raises(OptionError, match=r"threads is .*; expected a whole number of at least 1"):
        choose_threads(threads)
