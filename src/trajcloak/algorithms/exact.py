"""``exact``: the cheapest policy over all quad-cloak sequences, for small logs.

The cloaks of a bundle may be chosen freely at each instant, not only from one tree.
In an optimum every bundle has the smallest (semi-)quadrants around its members, so
only *closed* sequences matter: those that are the smallest around all they mask. They
are listed by adding one trajectory at a time to a set and closing it. An integer
program then chooses which sequences are used, and by whom. The problem is NP-complete
(Theorem 1 of the paper), so logs that are too large to finish are refused.

The solver computes in float64: where one bundle's cloaks are 10^12 times as large as
another's, the result may be above the optimum by some 10^-12 of the cost.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from trajcloak.errors import OptionError
from trajcloak.progress import Progress

MAX_TRAJECTORIES = 64
MAX_SEQUENCES = 5_000
MAX_SECONDS = 300.0
STOPPED_EARLY = 1
"""The solver's status if it ran out of time."""


def group_exactly(
    cells: npt.NDArray[np.uint32], height: int, k: int, threads: int, progress: Progress
) -> npt.NDArray[np.int32]:
    """Find the bundles of an optimum over quad-cloak sequences, by integer programming."""
    if len(cells) > MAX_TRAJECTORIES:
        raise OptionError(
            f"exact was given {len(cells)} users and can take {MAX_TRAJECTORIES}, since "
            f"the problem is NP-complete; use another --algorithm, or a smaller log"
        )
    progress("solving", 0, 1)
    sets, areas = build_closed_sets(cells)
    bundle = _solve_program(len(cells), k, sets, areas)
    progress("solving", 1, 1)
    return bundle


def build_closed_sets(cells: npt.NDArray[np.uint32]) -> tuple[list[int], list[float]]:
    """List the sets of trajectories that closed sequences mask, as bit masks, with their areas.

    At each instant the quadrants and semi-quadrants around a cell form one chain, each
    twice as large as the one before. So the smallest one around a set is found from one
    fixed member: take the smallest around it and each other member, and the largest of these.
    """
    n = len(cells)
    free = _pairwise_free_bits(cells)

    def close(seed: int, bits: npt.NDArray[np.int64]) -> int:
        inside = (free[seed] <= bits).all(axis=1)
        return int.from_bytes(np.packbits(inside, bitorder="little").tobytes(), "little")

    found: dict[int, npt.NDArray[np.int64]] = {}
    waiting: list[tuple[int, int, npt.NDArray[np.int64]]] = []
    for seed in range(n):
        bits = free[seed, seed]
        members = close(seed, bits)
        if members not in found:
            found[members] = bits
            waiting.append((seed, members, bits))
    while waiting:
        seed, members, bits = waiting.pop()
        for other in range(n):
            if members >> other & 1:
                continue
            more = np.maximum(bits, free[seed, other])
            larger = close(seed, more)
            if larger not in found:
                found[larger] = more
                waiting.append((seed, larger, more))
                if len(found) > MAX_SEQUENCES:
                    raise OptionError(
                        f"exact found more than {MAX_SEQUENCES} closed cloak sequences among "
                        f"{n} users and {cells.shape[1]} instants, and can take at most that many; "
                        f"use another --algorithm, or a smaller log"
                    )
    return list(found), [float(np.ldexp(1.0, bits).sum()) for bits in found.values()]


def _pairwise_free_bits(cells: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Compute, for every two trajectories and instant, log2 of the smallest cloak's area."""
    difference = (cells[:, None] ^ cells[None]).astype(np.float64)
    bits = np.frexp(difference)[1].astype(np.int64)
    x, y = bits[..., 0], bits[..., 1]
    # A quadrant has 2j free bits; the semi-quadrant below it, cut in x, one less.
    free: npt.NDArray[np.int64] = np.where(x >= y, 2 * x, 2 * y - 1)
    return free


def _solve_program(
    n: int, k: int, sets: Sequence[int], areas: Sequence[float]
) -> npt.NDArray[np.int32]:
    """Choose sequences and members: each trajectory uses one, each one used has k or more."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError as error:
        raise OptionError(
            "exact needs a solver of integer programs; install the extra 'exact' of trajcloak"
        ) from error
    usable = [i for i, members in enumerate(sets) if members.bit_count() >= k]
    # Pairs of a sequence and a trajectory that it masks.
    s, t = np.nonzero([[sets[i] >> other & 1 for other in range(n)] for i in usable])
    num_sets, num_pairs = len(usable), len(s)
    # Columns: whether each sequence is used, then whether the trajectory of each pair uses it.
    # Rows: each trajectory uses one sequence; a sequence that is used has at least k; only
    # sequences that are used have members.
    every_set, pair = np.arange(num_sets), num_sets + np.arange(num_pairs)
    entries = (
        (t, pair, 1),
        (n + s, pair, 1),
        (n + every_set, every_set, -k),
        (n + pair, pair, -1),
        (n + pair, s, 1),
    )
    rows, columns, values = zip(*(np.broadcast_arrays(*entry) for entry in entries), strict=True)
    shape = (n + num_sets + num_pairs, num_sets + num_pairs)
    places = np.concatenate(rows), np.concatenate(columns)
    matrix = coo_array((np.concatenate(values).astype(float), places), shape=shape).tocsr()
    low = np.zeros(shape[0])
    low[:n] = 1
    high = np.full(shape[0], np.inf)
    high[:n] = 1
    cost = np.zeros(shape[1])
    cost[num_sets:] = (np.array(areas) / min(areas))[usable][s]
    with _print_on_stderr():
        answer = milp(
            cost,
            constraints=LinearConstraint(matrix, low, high),
            bounds=Bounds(0, 1),
            integrality=np.ones(shape[1]),
            options={"mip_rel_gap": 0.0, "time_limit": MAX_SECONDS},
        )
    if answer.status == STOPPED_EARLY:
        raise OptionError(
            f"exact saw {n} users and {num_sets} closed cloak sequences, and could not prove an "
            f"optimum in {MAX_SECONDS:.0f} seconds; expected a smaller log; about half as many "
            f"users or instants can be finished"
        )
    if answer.x is None:
        raise AssertionError(f"the integer program ended without a solution: {answer.message}")
    is_used = answer.x[num_sets:] > 0.5
    chosen = np.empty(n, np.int64)
    chosen[t[is_used]] = s[is_used]
    return np.unique(chosen, return_inverse=True)[1].astype(np.int32)


@contextmanager
def _print_on_stderr() -> Iterator[None]:
    """Send to stderr what a library written in C prints on standard output.

    HiGHS prints some lines even with its output switched off; they would corrupt ``--json``.
    """
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
