"""The density surface, against overlaps computed rectangle by rectangle."""

import numpy as np
import pytest

from trajcloak.query.release_arrays import CellGrid, PublishedWindow
from trajcloak.report.map_contents import DensityGrid, build_density_grid, compute_density, shade


def draw_window(rng, num_bundles, length):
    counts = rng.integers(1, 4, size=(num_bundles, length))
    corners = np.sort(rng.integers(0, 40, size=(2, 2, counts.sum())), axis=0)
    corners[1] += 1
    sizes = rng.integers(1, 9, size=counts.sum())
    return PublishedWindow(
        first_id=0,
        first_set=0,
        start=3,
        stop=3 + length,
        users=np.zeros(num_bundles, np.int64),
        counts=counts,
        rectangles=corners.reshape(4, -1).astype(np.float64),
        sizes=sizes,
        keeps_members=False,
    )


def overlap(a, b, c, d):
    return max(0.0, min(b, d) - max(a, c))


@pytest.mark.parametrize("side", [1.0, 3.0, 4.3, 41.0])
def test_users_are_spread_evenly_over_their_rectangles(side):
    window = draw_window(np.random.default_rng(7), 6, 3)
    number = int(np.ceil(41 / side))
    grid = DensityGrid((0.0, 0.0), side, number, number)
    density = compute_density(window, CellGrid((0.0, 0.0), 1.0), grid)
    expected = np.zeros_like(density)
    for instant in range(3):
        for part in window.find_parts(3 + instant):
            x_min, y_min, x_max, y_max = window.rectangles[:, part]
            area = (x_max - x_min) * (y_max - y_min)
            for row, column in np.ndindex(number, number):
                width = overlap(x_min, x_max, column * side, (column + 1) * side)
                height = overlap(y_min, y_max, row * side, (row + 1) * side)
                expected[instant, row, column] += window.sizes[part] * width * height / area
    assert density == pytest.approx(expected, abs=1e-9)


def test_a_page_for_many_instants_has_larger_squares():
    assert build_density_grid([0, 0, 100, 50], 1).columns == 128
    assert build_density_grid([0, 0, 100, 50], 1_000).columns == 44
    assert build_density_grid([0, 0, 100, 50], 10**6).columns == 16
    # A line of cells has one row of squares.
    assert build_density_grid([7, 7, 8, 100], 1).columns >= 1


def test_shades():
    """None only where nobody is; the strongest from the greatest on."""
    assert shade(np.array([0.0, 1e-12, 1.0, 4.0, 9.0]), 4.0).tolist() == [0, 1, 128, 255, 255]
