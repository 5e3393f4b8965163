"""Run a kernel over slices of its input, one thread per core."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from trajcloak.options import check_number

T = TypeVar("T")


def default_threads() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_threads(threads: int | None) -> int:
    """Check the number of threads asked for; default: the number of cores."""
    if threads is None:
        return default_threads()
    check_number("threads", threads, 1)
    return threads


def build_slices(total: int, parts: int) -> list[tuple[int, int]]:
    """Cut ``range(total)`` into at most ``parts`` half-open slices of about equal size.

    Examples
    --------
    >>> build_slices(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    parts = max(1, min(parts, total))
    return list(pairwise(total * i // parts for i in range(parts + 1)))


def run_all(
    function: Callable[..., T], jobs: Iterable[tuple[object, ...]], threads: int
) -> list[T]:
    """Call ``function(*job)`` for every job, ``threads`` at a time; results in the jobs' order."""
    jobs = list(jobs)
    if threads == 1 or len(jobs) <= 1:
        return [function(*job) for job in jobs]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: function(*job), jobs))


def run_sliced(function: Callable[[int, int], T], total: int, threads: int) -> list[T]:
    """Call ``function(start, stop)`` on slices of ``range(total)``; results in order."""
    return run_all(function, build_slices(total, threads), threads)
