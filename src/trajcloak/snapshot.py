"""Policies that cloak each instant on its own; an attacker who links instants can break them.

``bulk-dp``
    The cheapest policy-aware k-anonymous policy of a snapshot over quadrants and
    semi-quadrants; ``traj-anon`` for trajectories of length 1.
``k-inside``
    The smallest quadrant or semi-quadrant around each user that holds k users;
    safe only against attackers who do not know the policy.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.traj_anon.assign import assign_bundles, build_node_cloaks
from trajcloak.algorithms.traj_anon.gtree import build_gtree
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.algorithms.traj_anon.solve import solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import suppress_nobody
from trajcloak.cloaks import Cloaks

BULK_DP = "bulk-dp"
K_INSIDE = "k-inside"
SNAPSHOT_POLICIES = (K_INSIDE, BULK_DP)


@dataclass(frozen=True)
class Snapshot:
    """A policy for one instant."""

    cloak: npt.NDArray[np.int32]  # of each user
    cloaks: Cloaks  # (cloaks, 1, 4)
    order: npt.NDArray[np.int32]  # users in the order of the tree
    # The users inside each cloak, members or not: a half-open range of ``order``.
    start: npt.NDArray[np.int32]
    stop: npt.NDArray[np.int32]


def solve_snapshot(
    cells: npt.NDArray[np.uint32], height: int, k: int, policy: str, threads: int = 1
) -> Snapshot:
    """Cloak the users of one instant, k or more, whose cells are (users, 2)."""
    at_once = np.ascontiguousarray(cells[:, None, :])
    layout = build_layout(1, height)
    keys = sort_keys(at_once, layout, threads)
    tree = build_gtree(keys, layout, k)
    if policy == BULK_DP:
        rows = solve_rows(tree, k, threads)
        passed_up = solve_configuration(tree, rows, k, suppress_nobody(tree))
    else:
        # Each node takes whoever is in none of its children: nobody is passed up.
        passed_up = np.zeros(len(tree.start), np.int64)
    cloak, node = assign_bundles(tree, keys.order, passed_up)
    return Snapshot(
        cloak=cloak,
        cloaks=build_node_cloaks(at_once, keys, layout, height, tree, node),
        order=keys.order,
        start=tree.start[node],
        stop=tree.stop[node],
    )
