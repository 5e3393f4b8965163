"""Run several algorithms on the same log and measure them all in the same way.

Each runs in a process of its own, with its kernels compiled before the clock starts,
and returns only who is bundled with whom. Sizes and costs of all are computed here, from
the bundles; no figure of an algorithm itself is trusted.
"""

import multiprocessing
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms import Algorithm, Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.cloaks import (
    Cloaks,
    build_bounding_boxes,
    build_covering_quads,
    compute_areas,
    compute_union_areas,
)
from trajcloak.errors import NotEnoughUsersError, OptionError, TrajcloakError
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.options import QUAD, Options, check_given, is_above_0
from trajcloak.parts import PartSettings, build_parts
from trajcloak.pipeline import choose_algorithm, prepare
from trajcloak.progress import Progress, silent
from trajcloak.snapshot import BULK_DP, solve_snapshot

OK = "ok"
TIMED_OUT = "out of time"
WARM_UP_USERS = 64


@dataclass(frozen=True)
class Comparison:
    """Result of one algorithm; what was not measured is None."""

    algorithm: str
    status: str  # "ok", "out of time", or what went wrong
    seconds: float | None = None  # from trajectories to bundles; compiling not counted
    # Cost with bounding boxes, and with the smallest (semi-)quadrants around the bundles, in square
    # units of the CRS.
    cost_mbr: float | None = None
    cost_quad: float | None = None
    # ``cost_quad`` is proven to be at most this many times the cost of the best quad-cloak policy;
    # exactly this many times, if ``exact`` is among the algorithms and finished.
    within_quad: float | None = None
    bundles: int | None = None
    smallest_bundle: int | None = None
    largest_bundle: int | None = None
    median_side: float | None = None  # square root of the median area of the bounding boxes
    # With parts: cost by the area of the part that each user is in, and by that of all parts of the
    # user's bundle together, counted once where they overlap.
    cost_parts: float | None = None
    cost_union: float | None = None


def compare_algorithms(
    log: RequestLog,
    k: int,
    algorithms: Sequence[str],
    *,
    time_limit: float | None = None,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> list[Comparison]:
    """Compare algorithms on a log; see :func:`trajcloak.compare`.

    ``options`` are fields of :class:`trajcloak.options.Options`: how to lay out the log and show
    members, and ``cloak``, the kind whose cost the algorithms are to lower.
    """
    threads = choose_threads(threads)
    check_given("time_limit", time_limit, "a number of seconds above 0", is_above_0)
    asked = Options(k=k, **options)
    for name in algorithms:
        _build(name, asked)
    prepared = prepare(log, asked, threads)
    height, cell = prepared.layout.region.height, prepared.layout.region.cell
    trajectories = [w.cells for w in prepared.windows(progress) if len(w.cells) >= k]
    if not trajectories:
        raise NotEnoughUsersError(
            f"no window has k = {k} users whose location is known throughout; expected at least "
            f"one; lower --k, or pass --missing=hold or a smaller --length"
        )
    least = sum(bound_optimum(cells, height, k, threads) for cells in trajectories)
    results = []
    for i, name in enumerate(algorithms):
        progress("comparing", i, len(algorithms))
        seconds, outcome = _run(time_limit, name, trajectories, height, asked, threads)
        if isinstance(outcome, str):
            results.append(Comparison(name, outcome, seconds))
        else:
            judged = _judge(name, seconds, trajectories, outcome, asked, cell, least, threads)
            results.append(judged)
    progress("comparing", len(algorithms), len(algorithms))
    return _relate_to_optimum(results)


def _relate_to_optimum(results: list[Comparison]) -> list[Comparison]:
    """Compare costs with the true optimum instead of its bound, if ``exact`` found it."""
    optimum = {r.algorithm: r.cost_quad for r in results}.get("exact")
    return [
        replace(r, within_quad=r.cost_quad / optimum) if optimum and r.cost_quad else r
        for r in results
    ]


def _build(name: str, asked: Options) -> Algorithm:
    """Build an algorithm from its name and, after a colon, its tree or effort."""
    name, _, setting = name.partition(":")
    asked = replace(asked, algorithm=name)
    if setting and name == Refined.name:
        asked = replace(asked, effort=setting)
    elif setting and name == TrajAnon.name:
        asked = replace(asked, tree=setting)
    elif setting:
        raise OptionError(
            f"algorithm '{name}' is given the variant '{setting}', and has none; expected a tree "
            f"with {TrajAnon.name} or an effort with {Refined.name}; leave it out"
        )
    return choose_algorithm(asked, cell=1.0)


def bound_optimum(cells: npt.NDArray[np.uint32], height: int, k: int, threads: int) -> float:
    """Compute a lower bound of the cost of the best quad-cloak policy, in cells.

    It is the larger of two bounds. The optimum of the tree costs at most ``length`` times
    as much (Theorem 2 of the paper). And at each instant a policy is also a policy for
    that snapshot alone, so it costs at least as much as the best snapshot policy there.
    """
    length = cells.shape[1]
    tree = TrajAnon().solve(cells, height, k, QUAD, threads=threads).cost() / length
    alone = 0.0
    for i in range(length):
        snapshot = solve_snapshot(cells[:, i], height, k, BULK_DP, threads)
        alone += float(compute_areas(snapshot.cloaks)[snapshot.cloak].sum())
    return float(max(tree, alone))


def _judge(
    name: str,
    seconds: float,
    trajectories: Sequence[npt.NDArray[np.uint32]],
    policies: Sequence[Policy],
    asked: Options,
    cell: float,
    least: float,
    threads: int,
) -> Comparison:
    """Measure the bundles of an algorithm, and their parts if there are any."""
    cost_mbr = cost_quad = own = union = 0.0
    sizes: list[npt.NDArray[np.int64]] = []
    areas: list[npt.NDArray[np.float64]] = []
    settings = None if asked.parts is None else PartSettings(asked.parts, asked.parts_per)
    for cells, policy in zip(trajectories, policies, strict=True):
        size = np.bincount(policy.bundle)
        boxes = build_bounding_boxes(cells, policy.bundle, len(size), threads)
        sizes.append(size)
        areas.append(compute_areas(boxes).ravel())
        cost_mbr += _cost(boxes, size)
        cost_quad += _cost(build_covering_quads(boxes), size)
        if settings is not None:
            parts = build_parts(cells, policy, settings, asked.cloak, threads)
            covered = compute_union_areas(parts.cloaks, parts.first, threads)
            own += float((compute_areas(parts.cloaks) * parts.sizes).sum())
            union += float((covered.reshape(parts.counts.shape).sum(axis=1) * size).sum())
    every = np.concatenate(sizes)
    least_users = int(every.min())
    defect = f"defect: a bundle of {least_users} users, fewer than {asked.k}"
    return Comparison(
        algorithm=name,
        status=OK if least_users >= asked.k else defect,
        seconds=seconds,
        cost_mbr=cost_mbr * cell**2,
        cost_quad=cost_quad * cell**2,
        within_quad=cost_quad / least,
        bundles=len(every),
        smallest_bundle=least_users,
        largest_bundle=int(every.max()),
        median_side=float(np.sqrt(np.median(np.concatenate(areas)))) * cell,
        cost_parts=None if settings is None else own * cell**2,
        cost_union=None if settings is None else union * cell**2,
    )


def _cost(cloaks: Cloaks, sizes: npt.NDArray[np.int64]) -> float:
    return float((compute_areas(cloaks).sum(axis=1) * sizes).sum())


def _run(time_limit: float | None, *job: Any) -> tuple[float, list[Policy] | str]:
    """Run ``_work(there, *job)`` in a process of its own; returns seconds and what it found."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, *job), daemon=True)
    # It needs nothing of the caller's script, and would run it again if it knew of it.
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        process.start()
    finally:
        sys.modules["__main__"] = script
    there.close()
    try:
        here.recv()
        started = time.monotonic()
        if not here.poll(time_limit):
            return time.monotonic() - started, TIMED_OUT
        seconds, found = here.recv()
        # This process may have been slow to notice the end of the time limit.
        if time_limit is not None and seconds > time_limit:
            return seconds, TIMED_OUT
    except EOFError:
        process.join()
        return 0.0, f"failed: the process ended with exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return seconds, found


def _work(
    there: Any,
    name: str,
    trajectories: Sequence[npt.NDArray[np.uint32]],
    height: int,
    asked: Options,
    threads: int,
) -> None:
    """Compile, send "ready" so that the clock starts, solve every window, send what was found.

    Where parts are asked for, bundles are divided into them.
    """
    algorithm = _build(name, asked)
    few = np.random.default_rng(0).integers(0, 4, (WARM_UP_USERS, 2, 2)).astype(np.uint32)
    # The same error is raised, and reported, below.
    with suppress(TrajcloakError):
        algorithm.solve(few, 2, 2, asked.cloak, threads=threads)
    there.send("ready")
    started = time.monotonic()
    found: list[Policy] = []
    refused = ""
    try:
        for cells in trajectories:
            part = None
            policy = algorithm.solve(cells, height, asked.k, asked.cloak, threads=threads)
            if asked.parts is not None:
                settings = PartSettings(asked.parts, asked.parts_per)
                part = build_parts(cells, policy, settings, asked.cloak, threads).part
            # Without cloaks, which are computed anew.
            num_bundles = int(policy.bundle.max()) + 1
            found.append(Policy(policy.bundle, np.empty((num_bundles, 0, 4), np.uint32), part))
    except TrajcloakError as error:
        refused = f"refused: {error.with_options}"
    there.send((time.monotonic() - started, refused or found))
