"""Questions about places, drawn at random around the users of a window.

Regions are boxes of whole cells, so that the true answer can be counted from cells alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.trajectories import NOWHERE

LEAST_SIDE, MOST_SIDE = 1 / 16, 1 / 2
"""Sides of the regions asked about, as shares of the release's region."""


class CellBox(NamedTuple):
    """A region in cells, half open."""

    x_start: int
    y_start: int
    x_stop: int
    y_stop: int

    def holds(self, cells: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Find which cells are inside."""
        x, y = cells[..., 0], cells[..., 1]
        inside: npt.NDArray[np.bool_] = (
            (self.x_start <= x) & (x < self.x_stop) & (self.y_start <= y) & (y < self.y_stop)
        )
        return inside


class CellStep(NamedTuple):
    """To be inside a box at an instant, which is counted from the start of the window."""

    box: CellBox
    instant: int


def draw_count(
    rng: np.random.Generator, cells: npt.NDArray[np.uint32], height: int
) -> list[CellStep]:
    """Ask who is in a box at an instant; the box is drawn around a user of the window.

    ``cells`` are the trajectories of the window, (users, instants, 2); somebody is somewhere.
    """
    user, instant = rng.integers(cells.shape[:2])
    while cells[user, instant, 0] == NOWHERE:
        user, instant = rng.integers(cells.shape[:2])
    return [CellStep(draw_box(rng, cells[user, instant], height), int(instant))]


def draw_moves(
    rng: np.random.Generator, cells: npt.NDArray[np.uint32], height: int
) -> list[CellStep]:
    """Ask who is at two places in turn, drawn around one user; requires at least two instants."""
    user = rng.integers(len(cells))
    instants = rng.choice(cells.shape[1], 2, replace=False)
    return [CellStep(draw_box(rng, cells[user, i], height), int(i)) for i in instants]


def draw_box(rng: np.random.Generator, cell: npt.NDArray[np.uint32], height: int) -> CellBox:
    """Draw a box around a cell."""
    num_cells = 2**height
    shares = np.exp(rng.uniform(np.log(LEAST_SIDE), np.log(MOST_SIDE), 2))
    sides = np.maximum(num_cells * shares, 1).astype(np.int64)
    start = cell.astype(np.int64) - rng.integers(sides)
    stop = np.minimum(start + sides, num_cells)
    start = np.maximum(start, 0)
    return CellBox(int(start[0]), int(start[1]), int(stop[0]), int(stop[1]))


def find_followers(
    cells: npt.NDArray[np.uint32], steps: Sequence[CellStep]
) -> npt.NDArray[np.bool_]:
    """Find the users of a window who are at all steps."""
    followers = np.ones(len(cells), np.bool_)
    for box, instant in steps:
        followers &= box.holds(cells[:, instant])
    return followers
