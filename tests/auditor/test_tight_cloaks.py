"""Bounding boxes must be no larger than the locations of their users ask for."""

import pytest

from reference.release_by_hand import EDGES, planar, refresh

CELL = 1024 / 2**7


@pytest.mark.parametrize("edge", EDGES)
def test_a_box_that_is_a_cell_too_large(find_failed, edge):
    example = planar(cloak="mbr", height=7)
    assert example.manifest["region"]["side"] / 2 ** example.manifest["height"] == CELL
    row = example.bundles[-1]
    row[edge] += CELL if edge.endswith("max") else -CELL
    refresh(example)
    assert find_failed(example) == {"locations"}
