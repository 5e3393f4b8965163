"""The cloaks that must, or may, have been published around the boxes of bundles.

Only ``traj-anon`` with ``quad`` cloaks leaves a choice: any node of its tree that holds all
members may be published. All other cloaks follow from the members.
"""

from pathlib import Path
from typing import Any

import numpy as np

from trajcloak.auditor.audited_columns import Ints, read_parquet, to_floats
from trajcloak.auditor.canonical_files import EDGES
from trajcloak.auditor.expected_bundles import ExpectedBundles
from trajcloak.auditor.findings import find_rows
from trajcloak.log.types import to_plain


def cover_by_quads(boxes: Any) -> Any:
    """Find the smallest quadrant or semi-quadrant (a quadrant cut in x) around each box."""
    low, last = boxes[:, :2].astype(np.int64), boxes[:, 2:].astype(np.int64) - 1
    # Bits below the highest one in which the first and the last cell differ are free.
    free = np.frexp((low ^ last).astype(np.float64))[1].astype(np.int64)
    free_y = np.maximum(free[:, 0], free[:, 1])
    free_x = np.where(free[:, 0] >= free[:, 1], free_y, free_y - 1)
    bits = np.column_stack([free_x, free_y])
    corner = low >> bits << bits
    return np.concatenate([corner, corner + (1 << bits)], axis=1).astype(np.int32)


def read_node_cloaks(file: Path, bundles: ExpectedBundles, tree: str) -> tuple[Any, list[str]]:
    """Read the cloaks of a release of ``traj-anon``, in cells, and check each of them.

    Returns the smallest quadrants instead of those that cannot be used, and what is wrong.
    """
    boxes, cells = bundles.boxes, bundles.cells
    cover = cover_by_quads(boxes)
    table = read_parquet(file, list(EDGES))
    if table is None or table.column_names != list(EDGES):
        return cover, ["the cloaks in bundles.parquet cannot be read"]
    if table.num_rows != len(boxes):
        return cover, ["bundles.parquet has not one row for each bundle and instant"]
    columns = [to_floats(to_plain(column.combine_chunks())) for column in table.columns]
    edges = np.column_stack(columns)
    corner = np.array([cells.x_min, cells.y_min] * 2)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint((edges - corner) / cells.cell)
    usable = np.isfinite(steps) & (steps >= 0) & (steps <= cells.num_cells)
    found = np.where(usable, steps, 0).astype(np.int32)
    wrong = ~usable.all(axis=1) | (cells.edges(found) != edges).any(axis=1)
    size = found[:, 2:] - found[:, :2]
    wrong |= (size <= 0).any(axis=1) | (size & (size - 1) != 0).any(axis=1)
    wrong[~wrong] |= (found[~wrong, :2] % size[~wrong] != 0).any(axis=1)
    problems = find_rows(wrong, "cloaks that are no quadrants or semi-quadrants")
    found[wrong] = cover[wrong]
    outside = (found[:, :2] > boxes[:, :2]).any(axis=1) | (found[:, 2:] < boxes[:, 2:]).any(axis=1)
    problems += find_rows(outside, "cloaks that do not hold all locations of their members")
    if not problems:
        problems = _find_foreign_nodes(found, bundles.first_set, cells.height, tree)
    return found, problems


def _find_foreign_nodes(cloaks: Any, first_set: Ints, height: int, tree: str) -> list[str]:
    """Check that each cloak sequence is a node: what the first bits of a key fix.

    A key has, level by level, a bit for each axis and instant; in ``usb`` axis by axis, in the
    other trees instant by instant. ``us`` has nodes at whole instants only, ``u`` at levels.
    """
    size = (cloaks[:, 2:] - cloaks[:, :2]).astype(np.float64)
    fixed = height - (np.frexp(size)[1].astype(np.int64) - 1)
    length = np.diff(first_set)
    bundle = np.repeat(np.arange(len(length)), length)
    instant = np.arange(len(cloaks)) - first_set[:-1][bundle]
    total = np.add.reduceat(fixed.sum(axis=1), first_set[:-1])
    level, rest = np.divmod(total, 2 * length)
    place = [instant, length[bundle] + instant] if tree == "usb" else [2 * instant, 2 * instant + 1]
    wrong = np.zeros(len(cloaks), bool)
    for axis in (0, 1):
        wrong |= fixed[:, axis] != level[bundle] + (rest[bundle] > place[axis])
    step = {"us": 2, "u": 2 * length}.get(tree, 1)
    wrong |= (total % step != 0)[bundle]
    return find_rows(wrong, "cloak sequences that are no nodes of the tree")
