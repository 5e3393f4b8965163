"""A generated city whose log is laid out for pictures."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import trajcloak as tc
from trajcloak.algorithms import Policy, build_algorithm
from trajcloak.attackers import Attack, attack_policies
from trajcloak.attackers.candidate_sets import Sent, build_sent
from trajcloak.generator.network import Network
from trajcloak.generator.network_files import load_network
from trajcloak.log import read_in_memory
from trajcloak.options import MBR, LogColumns, Options
from trajcloak.pipeline import prepare
from trajcloak.snapshot import BULK_DP, Snapshot, solve_snapshot

LENGTH = 30
ATTRIBUTES = ("category", "detail")


@dataclass(frozen=True)
class City:
    """A log, its bundles, and what a snapshot policy makes of it.

    Attributes
    ----------
    k : int
    network : Network
    cells : (users, instants, 2) uint32
    places : (users, instants, 2) float64
        In kilometres, as are all coordinates of pictures.
    policy : Policy
    snapshots : list of Snapshot
        The best policy for each instant on its own.
    sent : Sent
    attack : Attack
    cell, corner : float, (2,) float64
        Side of a cell and corner of the region.
    """

    k: int
    network: Network
    cells: npt.NDArray[np.uint32]
    places: npt.NDArray[np.float64]
    policy: Policy
    snapshots: list[Snapshot]
    sent: Sent
    attack: Attack
    cell: float
    corner: npt.NDArray[np.float64]

    def to_km(self, cloaks: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """Turn cells, (..., 4), into x_min, y_min, x_max, y_max."""
        edges: npt.NDArray[np.float64] = np.tile(self.corner, 2) + cloaks * self.cell
        return edges


def build_city(users: int, k: int, junctions: int) -> City:
    """Generate a log, bundle it, and cloak each of its instants."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        tc.generate_log(path, users=users, length=LENGTH, junctions=junctions)
        log = read_in_memory(path, LogColumns(requests=ATTRIBUTES))
        table = pq.read_table(path, columns=["user_id", "time", "x", "y"])
    prepared = prepare(log, Options(k=k), threads=1)
    (window,) = prepared.windows()
    region = prepared.layout.region
    table = table.sort_by([("user_id", "ascending"), ("time", "ascending")])
    places = np.column_stack([table["x"], table["y"]]).reshape(users, LENGTH, 2) / 1000
    return City(
        k=k,
        network=load_network("city", junctions=junctions),
        cells=window.cells,
        places=places,
        policy=build_algorithm("refined").solve(window.cells, region.height, k, MBR),
        snapshots=[
            solve_snapshot(window.cells[:, i], region.height, k, BULK_DP) for i in range(LENGTH)
        ],
        sent=build_sent(window.request_user, window.request_instant, window.request_kind),
        attack=attack_policies(log, k, algorithms=["refined"]),
        cell=region.cell / 1000,
        corner=np.array([region.x_min, region.y_min]) / 1000,
    )
