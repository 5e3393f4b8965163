"""Named examples and seeded random ones, shared by many tests.

Cells are arrays (n, instants, 2) of uint32, as the algorithms take them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import settings

EFFORT = "low" if numba.config.DISABLE_JIT else "normal"
"""How hard refined tries where it is not compiled, and where it is."""

needs_jit = pytest.mark.needs_jit


def examples(count: int) -> settings:
    """Settings of a property test with as many examples, a quarter of them in the quick lane."""
    return settings(max_examples=-(-count * settings.default.max_examples // 100))


class Example(NamedTuple):
    cells: np.ndarray
    height: int
    k: int


def build_zoo() -> dict[str, Example]:
    """Examples at the edges of what can be given to an algorithm, by name."""
    rng = np.random.default_rng(2024)
    nearly_equal = flip_last_bits(rng, draw_uniform(rng, 9, 70, 24), 90)
    return {
        "identical": Example(repeat([[5, 2], [7, 7], [0, 0]], 23), 3, 5),
        "identical_k": Example(repeat([[1, 1]], 4), 1, 4),
        "line_x": Example(line(64, (1, 0)), 6, 3),
        "line_y": Example(line(64, (0, 1)), 6, 3),
        "diagonal": Example(line(64, (1, 1)), 6, 4),
        "n_is_k": Example(draw_uniform(rng, 7, 2, 4), 4, 7),
        "n_is_k_plus_1": Example(draw_uniform(rng, 8, 2, 4), 4, 7),
        "n_is_2k_minus_1": Example(draw_uniform(rng, 9, 2, 4), 4, 5),
        "far_outlier": Example(
            np.concatenate([repeat([[0, 0], [1, 1]], 30), repeat([[255, 255], [255, 255]], 1)]),
            8,
            5,
        ),
        "far_outlier_of_k": Example(
            np.concatenate([repeat([[0, 0]], 5), repeat([[255, 255]], 1)]), 8, 3
        ),
        "every_cell": Example(every_cell(3), 3, 5),
        "thousands_of_duplicates": Example(
            draw_uniform(rng, 6, 3, 8)[rng.integers(0, 6, size=5000)], 8, 50
        ),
        "duplicates_below_k": Example(np.repeat(draw_uniform(rng, 300, 2, 6), 3, axis=0), 6, 4),
        "walks": Example(draw_walks(rng, 1500, 12, 10), 10, 10),
        "one_instant_high": Example(draw_clustered(rng, 400, 1, 24, spread=1 << 12), 24, 6),
        "long_and_high": Example(draw_clustered(rng, 120, 70, 24, spread=1 << 10), 24, 5),
        "long_near_duplicates": Example(nearly_equal, 24, 4),
    }


def repeat(trajectory: list[list[int]], count: int) -> np.ndarray:
    """The same trajectory several times."""
    return np.repeat(np.array([trajectory], np.uint32), count, axis=0)


def line(count: int, step: tuple[int, int]) -> np.ndarray:
    """One instant; trajectories at 0, 1, 2, ... steps from the origin."""
    return (np.arange(count)[:, None, None] * np.array(step)).astype(np.uint32)


def every_cell(height: int) -> np.ndarray:
    """One instant, and one trajectory in each cell."""
    return np.stack(np.indices((1 << height, 1 << height)), axis=-1).reshape(-1, 1, 2).astype("u4")


def draw_uniform(rng: np.random.Generator, n: int, length: int, height: int) -> np.ndarray:
    return rng.integers(0, 1 << height, size=(n, length, 2), dtype=np.uint32)


def draw_clustered(
    rng: np.random.Generator, n: int, length: int, height: int, spread: int = 1, centres: int = 3
) -> np.ndarray:
    """Trajectories around a few others, some of them equal."""
    centre = rng.integers(0, 1 << height, size=(centres, length, 2))
    noise = rng.integers(-spread, spread + 1, size=(n, length, 2))
    cells = centre[rng.integers(0, centres, size=n)] + noise
    return np.clip(cells, 0, (1 << height) - 1).astype(np.uint32)


def draw_duplicates(
    rng: np.random.Generator, n: int, length: int, height: int, distinct: int
) -> np.ndarray:
    """Few distinct trajectories, in any order."""
    return draw_uniform(rng, distinct, length, height)[rng.integers(0, distinct, size=n)]


def draw_walks(rng: np.random.Generator, n: int, length: int, height: int) -> np.ndarray:
    """Trajectories that move by at most one cell from an instant to the next."""
    start = rng.integers(0, 1 << height, size=(n, 1, 2))
    steps = rng.integers(-1, 2, size=(n, length - 1, 2)) if length > 1 else start[:, :0]
    path = np.concatenate([start, steps], axis=1).cumsum(axis=1)
    return np.clip(path, 0, (1 << height) - 1).astype(np.uint32)


def flip_last_bits(rng: np.random.Generator, cells: np.ndarray, n: int) -> np.ndarray:
    """n copies of the given trajectories; in most, one coordinate's last bit is flipped."""
    copies = cells[rng.integers(0, len(cells), size=n)].copy()
    instant = rng.integers(0, cells.shape[1], size=n)
    axis = rng.integers(0, 2, size=n)
    copies[np.arange(n), instant, axis] ^= (rng.random(n) < 0.8).astype(np.uint32)
    return copies


def draw_examples(
    seed: int | list[int],
    count: int,
    *,
    most: int = 12,
    most_k: int = 5,
    length: int = 4,
    height: int = 3,
) -> Iterator[Example]:
    """Small random examples of every sort: uniform, clustered, full of duplicates, walks."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        k = int(rng.integers(2, most_k + 1))
        n = int(rng.integers(k, max(most, k) + 1))
        instants = int(rng.integers(1, length + 1))
        levels = int(rng.integers(1, height + 1))
        sort = number % 4
        if sort == 0:
            cells = draw_uniform(rng, n, instants, levels)
        elif sort == 1:
            cells = draw_clustered(rng, n, instants, levels)
        elif sort == 2:
            cells = draw_duplicates(rng, n, instants, levels, int(rng.integers(1, 5)))
        else:
            cells = draw_walks(rng, n, instants, levels)
        yield Example(cells, levels, k)


def as_trajectories(cells: np.ndarray) -> list[list[tuple[int, int]]]:
    """The same as lists of pairs, as the slow twins take them."""
    return [[(int(x), int(y)) for x, y in trajectory] for trajectory in cells]


def list_groups(bundle: np.ndarray) -> list[list[int]]:
    """Rows of each bundle."""
    return [np.flatnonzero(bundle == b).tolist() for b in range(bundle.max() + 1)]


def as_keys(cells: np.ndarray, height: int) -> list[str]:
    """The key of each trajectory, spelled out: level, then axis, then instant."""
    keys = []
    for trajectory in cells.tolist():
        digits = [[f"{cell:0{height}b}" for cell in place] for place in trajectory]
        keys.append(
            "".join(
                place[axis][level] for level in range(height) for axis in (0, 1) for place in digits
            )
        )
    return keys


def first_quick(cases: Sequence[Any], count: int) -> list[Any]:
    """Leave all but the first ``count`` cases of a parametrized test to the whole lane."""
    return [*cases[:count], *(pytest.param(case, marks=pytest.mark.slow) for case in cases[count:])]
