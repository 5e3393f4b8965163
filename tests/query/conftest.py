import pytest

from runs import anonymize
from small_logs import UNIT_CELLS, Row, read_rows
from trajcloak.query import open_published

LOG = [
    # Two users who move right along the bottom, and two who stay at the top.
    Row("a", 0, 0, 0, "x"),
    Row("b", 0, 3, 1, "x"),
    Row("c", 0, 0, 9, "y"),
    Row("d", 0, 1, 9, None),
    Row("a", 1, 4, 0, "x"),
    Row("b", 1, 7, 1, "y"),
    Row("c", 1, 0, 9, None),
    Row("d", 1, 1, 9, "x"),
]
"""With k = 2 there are two bundles. Cells are one unit wide, and places are their centres.

Cloaks: movers (-0.5, -0.5, 3.5, 1.5) and (3.5, -0.5, 7.5, 1.5); the others (-0.5, 8.5, 1.5, 9.5).
"""


def publish(folder, name="by-hand", k=2, **options):
    path = folder / name
    anonymize(read_rows(LOG), k, rare="keep", threads=1, **UNIT_CELLS, **options).write(path)
    return path


@pytest.fixture
def by_hand(tmp_path):
    """The release of LOG in one window."""
    return open_published(publish(tmp_path))


@pytest.fixture
def by_hand_in_windows(tmp_path):
    """The release of LOG with a window for each instant."""
    return open_published(publish(tmp_path, "by-hand-in-windows", length=1))
