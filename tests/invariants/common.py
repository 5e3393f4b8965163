"""What the tests of several invariants share."""

from typing import Any

from hypothesis import settings

from small_logs import Drawn, Published, clustered_rows, publish, read_rows
from zoo import examples

EDGES = ["x_min", "y_min", "x_max", "y_max"]
FILES = ["bundles.parquet", "manifest.json", "requests.parquet"]
EXAMPLE = Drawn(clustered_rows(), 3)
"""Four bundles of three users, three instants, requests in most."""

WINDOWS = Drawn(clustered_rows(), 3, {"length": 1})


def property_test(max_examples: int):
    """Settings of a property test: the same examples in every run."""
    return settings(examples(max_examples), derandomize=True)


def run(drawn: Drawn, **more: Any) -> Published:
    return publish(read_rows(drawn.rows), drawn.k, **{**drawn.run_options, **more})


def require(condition: bool, message: str) -> None:
    """Fail with the number of the invariant first, so that tests can tell whose failure it is."""
    if not condition:
        raise AssertionError(message)
