"""Round after round, group neighbouring bundles and let them exchange trajectories."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import SEMI_QUADRANT, Points, move_to_origin, pad_instants
from trajcloak.algorithms.refined.improve import IMPROVE_GROUP, build_group
from trajcloak.cloaks import (
    Cloaks,
    build_bounding_boxes,
    build_covering_quads,
    compute_areas,
)
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import run_all
from trajcloak.options import QUAD
from trajcloak.progress import Progress

SHARES = (0.5, 1 / 3, 2 / 3, 0.4, 0.6, 0.25, 0.75, 0.45)
"""Share of the bundles before the first cut, round by round, so that groups differ each time."""


MOST_DIVISIONS = 192
"""More divisions lower the cost by less than 1%, even at one instant."""

MOST_TIMES = 10
"""In a small log a trajectory is given at most this many times the time that it gets in a very
large one. Twice as much lowered the cost by another 1 to 2%."""

SMALL = 2900
FEW = 3
"""Windows of n < ``SMALL`` trajectories are given n / ``SMALL`` of the rounds: a log may have
thousands of such windows, and with a fifth of the rounds 500 users cost only 1 to 3% more. Where
there are few bundles rounds are quick, so a window of b bundles is given at least ``FEW`` / b."""


ONE_GROUP_HEAT = 0.7
"""Factor on the heat where all bundles are in one group; there the heat falls linearly. Nine
schedules, tried with 200 to 1,000 users, differed by less than 1% of the cost."""


class Effort(NamedTuple):
    """How hard to try, with many trajectories of 30 instants and k of 100 or more."""

    rounds: int  # How often bundles are grouped and improved.
    heat: float  # Heat of the first round; it falls to 0 in the last.
    # For :data:`trajcloak.algorithms.refined.improve.IMPROVE_GROUP`.
    passes: int
    near: int
    samples: int
    # Rounds of :func:`trajcloak.algorithms.refined.divide_anew.divide_anew`, where it is used.
    divisions: int
    time_for: int = 0  # A smaller log is given up to the time of a log with this many trajectories.
    group: int = 100  # Bundles in a group.
    saves_time: bool = False  # Whether small logs are given fewer rounds; see :data:`SMALL`.
    # Trajectories that are bundled greedily at a time, or 20 k if that is more. Larger blocks give
    # better first bundles, and take longer.
    block: int = 4000
    # Of ``t`` times the time, ``t**for_passes`` times is used for more passes in a round, which
    # then look at one more of the nearest bundles, and the rest for more rounds.
    for_passes: float = 0.0


LEVELS = {
    "least": Effort(rounds=2, heat=0.015, passes=1, near=1, samples=10, divisions=1),
    "low": Effort(rounds=4, heat=0.015, passes=2, near=1, samples=10, divisions=4),
    "normal": Effort(
        rounds=8,
        heat=0.04,
        passes=2,
        near=2,
        samples=16,
        divisions=16,
        time_for=200_000,
        saves_time=True,
    ),
    "high": Effort(
        rounds=48, heat=0.08, passes=6, near=2, samples=16, divisions=48, time_for=60_000
    ),
}
"""Measured with 20,000 trajectories of 30 instants on eight logs, ``low``, ``normal`` and ``high``
cost 0.59 to 0.73, 0.50 to 0.62 and 0.49 to 0.59 times as much as slow clustering. With 2 million
trajectories, ``normal`` takes 31 seconds on two cores.

``least`` is for predicted trajectories: more rounds make the cloaks around predictions smaller, but
those around the ways that users then went by 1 to 3% only."""


def aim_at_parts(effort: Effort) -> Effort:
    """Adapt the effort to parts, which are smaller and more than bundles.

    Measured with parts of 5 and 10 on logs of 20,000 and 200,000 trajectories: small blocks save
    time, and rounds make up for their worse first bundles. Where there is time for dozens of
    rounds, fewer and longer ones lower the cost further.
    """
    return effort._replace(
        group=3 * effort.group,
        heat=0.6 * effort.heat,
        block=effort.block // 4,
        for_passes=0.45,
    )


def fit_effort(effort: Effort, count: int, length: int, k: int) -> Effort:
    """Use the time that short or few trajectories save for more rounds, and adapt the heat.

    Measured for 1 to 30 instants and k of 5 to 100. A pass is quicker for short trajectories:
    it tries only the outermost members of a bundle, at most four per instant. And the fewer
    trajectories and instants a bundle has, the larger is the share of each in its cost, so
    the heat has to be higher.
    """
    shorter = max(1, 30 // length)
    fewer = min(MOST_TIMES, max(1, effort.time_for // count))
    heat = effort.heat * math.sqrt(math.sqrt(fewer))
    heat *= min(0.3 * length, math.sqrt(30 / length)) * max(1.0, math.sqrt(100 / k))
    times = max(min(3, shorter), min(10, fewer))
    divisions = min(MOST_DIVISIONS, effort.divisions * min(6, shorter))
    share = min(1.0, max(count / SMALL, FEW * k / count)) if effort.saves_time else 1.0
    passes = effort.passes * max(min(12, k // (4 * length)), max(1, fewer // 10))
    return effort._replace(
        rounds=math.ceil(effort.rounds * times ** (1 - effort.for_passes) * share),
        heat=heat,
        passes=round(passes * times**effort.for_passes),
        near=effort.near + (effort.for_passes > 0 and times > 1),
        divisions=math.ceil(divisions * share),
    )


def improve_bundles(
    cells: npt.NDArray[np.uint32],
    points: Points,
    bundle: npt.NDArray[np.int32],
    left_out: npt.NDArray[np.bool_],
    k: int,
    cloak: str,
    effort: Effort,
    threads: int,
    progress: Progress,
) -> None:
    """Lower the cost of bundles; changes ``bundle`` in place.

    Where all bundles fit into one group, the kernel runs all rounds in one call.

    ``cells`` and ``points`` are the trajectories in both layouts. Bundles are numbered from 0 and
    have at least k trajectories, before and after. ``left_out`` marks those that will not be
    published, not all; they keep their sizes.
    """
    rest = np.arange(effort.rounds - 1, -1, -1) / max(1, effort.rounds - 1)
    if len(left_out) <= effort.group:
        calls = [ONE_GROUP_HEAT * effort.heat * rest]
    else:
        calls = np.split(effort.heat * rest * rest, effort.rounds)
    first_cost = 0.0
    for number in range(len(calls) + 1):
        boxes = build_bounding_boxes(cells, bundle, len(left_out), threads)
        cloaks = build_covering_quads(boxes) if cloak == QUAD else boxes
        costs = compute_areas(cloaks).sum(axis=1) * np.bincount(bundle)
        cost = float(costs[~left_out].sum())
        first_cost = first_cost or cost
        stage = f"refining, at {100 * cost / first_cost:.1f}% of the first cost"
        progress(stage, number, len(calls))
        if number < len(calls):
            _run_round(
                points, boxes, bundle, left_out, k, cloak == QUAD, effort, number, calls[number],
                threads,
            )  # fmt: skip


def _run_round(
    points: Points,
    boxes: Cloaks,
    bundle: npt.NDArray[np.int32],
    left_out: npt.NDArray[np.bool_],
    k: int,
    quad: bool,
    effort: Effort,
    number: int,
    heats: npt.NDArray[np.float64],
    threads: int,
) -> None:
    """Gather neighbouring bundles into groups and improve each group."""
    members, first = group_by_number(bundle, len(boxes))
    # Twice the centre of a box: a whole number, and just as good to compare.
    middles = np.ascontiguousarray((boxes[..., :2] + boxes[..., 2:]).transpose(0, 2, 1))
    share = SHARES[number % len(SHARES)]
    rows = np.arange(len(boxes), dtype=np.int32)
    groups = build_blocks(middles, rows, effort.group, share, threads)

    def improve(i: int, group: npt.NDArray[np.int32]) -> None:
        sizes = first[group + 1] - first[group]
        rows = np.concatenate([members[first[b] : first[b + 1]] for b in group])
        room = max(2 * k - 1, int(sizes.max()))
        places = np.zeros((len(group), room), np.int64)
        places[np.arange(room) < sizes[:, None]] = np.arange(len(rows))
        near_points = points[rows]
        shape = SEMI_QUADRANT if quad else move_to_origin(near_points)
        IMPROVE_GROUP[shape](
            build_group(pad_instants(near_points), places, sizes, left_out[group]),
            k,
            heats,
            effort.passes,
            effort.near,
            effort.samples,
            np.array([(number << 32) + i], np.uint64),
        )
        inside = np.arange(room) < sizes[:, None]
        bundle[rows[places[inside]]] = np.repeat(group, sizes)

    run_all(improve, list(enumerate(groups)), threads)
