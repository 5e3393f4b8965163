"""Projection, region and grid: from coordinates to cells and back."""

from trajcloak.space.checks import (
    check_inside,
    find_beyond,
    find_outside,
    judge_inside,
    judge_reach,
)
from trajcloak.space.outliers import Stretches, count_places, find_far, judge_outliers
from trajcloak.space.places import Places, build_places, choose_region
from trajcloak.space.projection import (
    Projection,
    bound_east,
    choose_projection,
    find_projection,
    join_bounds,
)
from trajcloak.space.region import (
    Bounds,
    Region,
    check_cells,
    check_height,
    check_size,
    default_height,
    find_cell,
    fit_region,
)

__all__ = [
    "Bounds",
    "Places",
    "Projection",
    "Region",
    "Stretches",
    "bound_east",
    "build_places",
    "check_cells",
    "check_height",
    "check_inside",
    "check_size",
    "choose_projection",
    "choose_region",
    "count_places",
    "default_height",
    "find_beyond",
    "find_cell",
    "find_far",
    "find_outside",
    "find_projection",
    "fit_region",
    "join_bounds",
    "judge_inside",
    "judge_outliers",
    "judge_reach",
]
