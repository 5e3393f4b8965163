"""Which request values may be published: no identifiers, no places, rare values as asked for."""

from trajcloak.log import ShardedLog
from trajcloak.options import KEEP
from trajcloak.requests.attributes import count_values, select_values
from trajcloak.requests.rare_values import (
    RareColumn,
    Treatment,
    count_rare,
    find_rare,
    treat_rare,
)
from trajcloak.requests.suspicions import check_values
from trajcloak.trajectories import Layout

__all__ = ["RareColumn", "Treatment", "decide_values"]


def decide_values(
    log: ShardedLog, layout: Layout
) -> tuple[tuple[RareColumn, ...], Treatment | None]:
    """Refuse requests that must not be published, and decide what becomes of rare values."""
    asked, grid = layout.asked, layout.grid
    attributes = count_values(log)
    rare = find_rare(attributes, asked.rare_below or asked.k)
    published = attributes
    if asked.rare != KEEP:
        published = [select_values(a, ~mask) for a, mask in zip(attributes, rare, strict=True)]
    check_values(log, attributes, published, asked.allow)
    windows = grid.origin + layout.ranges * grid.every
    treatment = treat_rare(log.kinds, attributes, rare, asked.rare)
    return count_rare(log, attributes, rare, windows), treatment
