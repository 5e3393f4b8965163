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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.keys import sort_canonically
from trajcloak.cloaks import build_cloaks
from trajcloak.errors import OptionError
from trajcloak.progress import Progress, silent

MAX_TRAJECTORIES = 64
MAX_SEQUENCES = 5_000
MAX_SECONDS = 300.0
STOPPED_EARLY = 1
"""The solver's status if it ran out of time."""


@dataclass(frozen=True)
class Exact:
    """The optimum over quad-cloak sequences, by integer programming."""

    name = "exact"

    def solve(
        self,
        cells: npt.NDArray[np.uint32],
        height: int,
        k: int,
        cloak: str,
        *,
        threads: int = 1,
        progress: Progress = silent,
    ) -> Policy:
        """Bundle trajectories; see :class:`trajcloak.algorithms.Algorithm`."""
        if len(cells) > MAX_TRAJECTORIES:
            raise OptionError(
                f"exact was given {len(cells)} users and can take {MAX_TRAJECTORIES}, since "
                f"the problem is NP-complete; use another --algorithm, or a smaller log"
            )
        order = sort_canonically(cells, height, threads)
        progress("solving", 0, 1)
        sets, areas = build_closed_sets(cells[order])
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = _solve_program(len(cells), k, sets, areas)
        progress("solving", 1, 1)
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))


def build_closed_sets(cells: npt.NDArray[np.uint32]) -> tuple[list[int], list[float]]:
    """List the sets of trajectories that closed sequences mask, as bit masks, with their areas.

    At each instant the quadrants and semi-quadrants around a cell form one chain, each
    twice as large as the one before. So the smallest one around a set is found from one
    fixed member: take the smallest around it and each other member, and the largest of these.
    """
    n = len(cells)
    free = _pairwise_free_bits(cells)

    def close(seed: int, bits: npt.NDArray[np.int64]) -> tuple[int, npt.NDArray[np.int64]]:
        inside = (free[seed] <= bits).all(axis=1)
        return int(np.packbits(inside, bitorder="little").tobytes()[::-1].hex(), 16), bits

    found: dict[int, npt.NDArray[np.int64]] = {}
    waiting: list[tuple[int, int, npt.NDArray[np.int64]]] = []
    for seed in range(n):
        members, bits = close(seed, free[seed, seed])
        if members not in found:
            found[members] = bits
            waiting.append((seed, members, bits))
    while waiting:
        seed, members, bits = waiting.pop()
        for other in range(n):
            if members >> other & 1:
                continue
            larger, more = close(seed, np.maximum(bits, free[seed, other]))
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
            "exact needs a solver of integer programs; install it with "
            "pip install 'trajcloak[exact]'"
        ) from error
    usable = [s for s in range(len(sets)) if sets[s].bit_count() >= k]
    pairs = [(s, t) for s in range(len(usable)) for t in range(n) if sets[usable[s]] >> t & 1]
    num_sets, num_pairs = len(usable), len(pairs)
    # Columns: whether each sequence is used, then whether the trajectory of each pair uses it.
    # Rows: each trajectory uses one sequence; a sequence that is used has at least k; only
    # sequences that are used have members.
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []

    def entry(row: int, column: int, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    for p, (s, t) in enumerate(pairs):
        entry(t, num_sets + p, 1)
        entry(n + s, num_sets + p, 1)
        entry(n + num_sets + p, num_sets + p, -1)
        entry(n + num_sets + p, s, 1)
    for s in range(num_sets):
        entry(n + s, s, -k)
    shape = (n + num_sets + num_pairs, num_sets + num_pairs)
    matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
    low = np.zeros(shape[0])
    low[:n] = 1
    high = np.full(shape[0], np.inf)
    high[:n] = 1
    unit = min(areas)
    cost = np.zeros(shape[1])
    cost[num_sets:] = [areas[usable[s]] / unit for s, _ in pairs]
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
    chosen = np.empty(n, np.int64)
    for p, (s, t) in enumerate(pairs):
        if answer.x[num_sets + p] > 0.5:
            chosen[t] = s
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
