"""All objects, moved in step by several threads."""

import numpy as np

from trajcloak.generator.congestion import build_capacities, delays_of
from trajcloak.generator.movers import Fleet, Reports
from trajcloak.generator.roads import Roads
from trajcloak.kernels.threads import build_slices, run_all


class Simulation:
    """Objects on roads, from the first instant on.

    Parameters
    ----------
    roads
        What they move on.
    users
        How many objects there are.
    seed
        The seed of the log.
    stays
        Whether objects stay where their first trip ends.
    congestion
        Whether roads slow down when too many objects were on them at the instant before.
    threads
        How many fleets to move at a time; never changes the result.
    """

    def __init__(
        self,
        roads: Roads,
        *,
        users: int,
        seed: int,
        stays: bool,
        congestion: bool,
        threads: int,
    ) -> None:
        self._users = users
        self._threads = threads
        self._slices = build_slices(users, threads)
        self._fleets = [
            Fleet(roads, seed, start, stop - start, stays=stays) for start, stop in self._slices
        ]
        self._delays = np.zeros(roads.network.num_edges, np.int8)
        self._capacities = build_capacities(roads.network) if congestion else None

    def report(self, instants: int) -> Reports:
        """Report the next instants, as arrays (instants, users)."""
        shape = (instants, self._users)
        reports = Reports(np.empty(shape), np.empty(shape), np.empty(shape, np.int8))
        if self._capacities is None:
            self._move(reports)
            return reports
        for instant in range(instants):
            self._move(Reports._make(array[instant : instant + 1] for array in reports))
            counts = np.zeros(self._delays.size, np.int64)
            for fleet in self._fleets:
                fleet.count_on_edges(counts)
            self._delays = delays_of(counts, self._capacities)
        return reports

    def _move(self, reports: Reports) -> None:
        def move(fleet: Fleet, start: int, stop: int) -> None:
            part = Reports._make(array[:, start:stop] for array in reports)
            fleet.report(self._delays, part)

        jobs = [(fleet, *bounds) for fleet, bounds in zip(self._fleets, self._slices, strict=True)]
        run_all(move, jobs, self._threads)
