"""Bundles: their rows, cloaks and members."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import Log
from trajcloak.auditor.audited_manifest import Manifest, no_duplicates
from trajcloak.auditor.audited_parquet import (
    BundleColumns,
    ParquetContents,
    find_nulls,
    find_schema_problems,
)
from trajcloak.auditor.audited_values import decode_column
from trajcloak.auditor.findings import first_few, first_rows
from trajcloak.auditor.search import find_runs, find_sorted, list_distinct, sort_by

Ints = npt.NDArray[np.int64]

WKB_POLYGON = np.dtype(
    [("byte_order", "u1"), ("kind", "<u4"), ("rings", "<u4"), ("points", "<u4"), ("xy", "<f8", 10)]
)
CORNERS = (0, 1, 2, 1, 2, 3, 0, 3, 0, 1)
"""Columns of a rectangle in the order of its corners, counter-clockwise and closed."""

GEO_WORDS = ("version", "primary_column", "columns", "encoding", "geometry_types", "bbox")


@dataclass(frozen=True)
class BundleLayout:
    """Whole bundles: each has one row for each instant of its window.

    Attributes
    ----------
    ids
        Of each bundle, ascending.
    first
        Of each bundle, its first row in ``rectangle``; its other rows follow.
    window, users
        Of each bundle.
    rectangle
        The cloaks by bundle, then instant.
    bundle
        Of each cloak, the index of its bundle.
    """

    ids: Ints
    first: Ints
    window: Ints
    users: Ints
    rectangle: npt.NDArray[np.float64]
    bundle: Ints

    def find(self, bundle_ids: npt.NDArray[Any]) -> Ints:
        """Find the index of bundles by their ids; -1 for those that do not exist."""
        return find_sorted(self.ids, bundle_ids)


def group_bundle_rows(
    bundles: BundleColumns, grid: InstantGrid
) -> tuple[BundleLayout | None, list[str]]:
    """Group rows to bundles; returns them if they are whole, and what is wrong."""
    if not bundles.num_rows:
        return None, ["bundles.parquet has no rows"]
    order = sort_by(_ranks(bundles.bundle_id), bundles.instant.astype(np.int64))
    bundle_id = bundles.bundle_id[order]
    ids, counts = find_runs(bundle_id)
    first = np.cumsum(counts) - counts
    bundle = np.repeat(np.arange(len(ids)), counts)
    window = bundles.window[order][first].astype(np.int64)
    users = bundles.users[order][first].astype(np.int64)

    problems = []
    in_log = (window >= 0) & (window < grid.num_windows)
    expected = np.arange(len(bundle)) - first[bundle]
    whole = in_log & (counts == grid.window_sizes(window))
    for name, right in (
        ("window", bundles.window[order] == window[bundle]),
        ("instant", bundles.instant[order] == grid.window_starts(window)[bundle] + expected),
    ):
        wrong = np.sort(order[~right])
        if len(wrong):
            problems.append(f"wrong '{name}' in {first_rows(wrong)}")
            whole[bundle[~right]] = False
    if not whole.all():
        problems.append(
            f"{int((~whole).sum()):,} bundles without exactly one row for each instant of their "
            f"window ({first_few(ids[~whole])})"
        )
    differing = np.sort(order[bundles.users[order] != users[bundle]])
    if len(differing):
        problems.append(f"'users' changes within a bundle in {first_rows(differing)}")
    if ids[0] != 0 or ids[-1] != len(ids) - 1:
        problems.append(f"the ids of {len(ids):,} bundles are not 0, 1, 2, ...")
    layout = None
    if whole.all():
        layout = BundleLayout(ids, first, window, users, bundles.rectangle[order], bundle)
    return layout, problems


def _ranks(values: Ints) -> Ints:
    return np.unique(values, return_inverse=True)[1]


def find_order_problems(bundles: BundleColumns, layout: BundleLayout) -> list[str]:
    """Check the order of rows, and that ids follow windows and cloak sequences."""
    problems = []
    later = (bundles.bundle_id[1:] > bundles.bundle_id[:-1]) | (
        (bundles.bundle_id[1:] == bundles.bundle_id[:-1])
        & (bundles.instant[1:] > bundles.instant[:-1])
    )
    if not later.all():
        problems.append(f"out of order: {first_rows(np.flatnonzero(~later) + 1)}")
    back = np.flatnonzero(layout.window[1:] < layout.window[:-1]) + 1
    if len(back):
        problems.append(f"ids not window by window: bundles {first_few(layout.ids[back])}")
    unsorted = np.flatnonzero(_compare_with_next(layout) > 0) + 1
    if len(unsorted):
        problems.append(
            f"{len(unsorted):,} bundles not in the order of their cloak sequences "
            f"({first_few(layout.ids[unsorted])})"
        )
    return problems


def _compare_with_next(layout: BundleLayout) -> Ints:
    """Compare each bundle but the last with the next one of its window.

    Returns -1, 0 or 1: the cloak sequence, then the users, are less, equal, greater.
    """
    outcome = np.sign(layout.users[:-1] - layout.users[1:])
    same_window = layout.window[:-1] == layout.window[1:]
    size = np.diff(np.append(layout.first, len(layout.bundle)))
    rows = np.flatnonzero(np.append(same_window, False)[layout.bundle])
    of_row = np.zeros(len(rows), dtype=np.int64)
    here = layout.rectangle[rows]
    there = layout.rectangle[rows + size[layout.bundle[rows]]]
    for column in range(here.shape[1]):
        one, other = here[:, column], there[:, column]
        sign = (one > other).astype(np.int64) - (one < other)
        of_row = np.where(of_row == 0, sign, of_row)
    decided = np.flatnonzero(of_row)
    # The first instant at which the two cloaks differ decides.
    bundle, at = np.unique(layout.bundle[rows[decided]], return_index=True)
    outcome[bundle] = of_row[decided[at]]
    return np.where(same_window, outcome, 0)


def find_cloak_problems(bundles: BundleColumns, manifest: Manifest) -> list[str]:
    """Check that cloaks are made of cells of the region, and quad cloaks are quadrants."""
    region = manifest["region"]
    num_cells = 2 ** int(manifest["height"])
    cell = region["side"] / num_cells
    corner = np.array([region["x_min"], region["y_min"]] * 2, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint((bundles.rectangle - corner) / cell)
    usable = np.isfinite(steps) & (steps >= 0) & (steps <= num_cells)
    cells = np.where(usable, steps, 0).astype(np.int64)
    off_grid = ~usable | (corner + cells * cell != bundles.rectangle)
    problems = []
    wrong = np.flatnonzero(off_grid.any(axis=1))
    if len(wrong):
        problems.append(f"edges that are no cell edges of the region in {first_rows(wrong)}")
    width, depth = cells[:, 2] - cells[:, 0], cells[:, 3] - cells[:, 1]
    empty = np.flatnonzero((width <= 0) | (depth <= 0))
    if len(empty):
        problems.append(f"cloaks without an area in {first_rows(empty)}")
    if manifest["cloak"] == "quad" and not problems:
        quad = (depth & (depth - 1) == 0) & ((width == depth) | (2 * width == depth))
        quad &= (cells[:, 0] % width == 0) & (cells[:, 1] % depth == 0)
        if not quad.all():
            problems.append(
                f"cloaks that are no quadrants or semi-quadrants in "
                f"{first_rows(np.flatnonzero(~quad))}"
            )
    return problems


def find_moment_problems(bundles: BundleColumns, grid: InstantGrid) -> list[str]:
    """Check the stretch of time of each row."""
    problems = []
    instant = bundles.instant.astype(np.int64)
    for name, values, offset in (("t_start", bundles.t_start, 0), ("t_end", bundles.t_end, 1)):
        if values is None:
            continue
        wrong = np.flatnonzero(values != grid.origin + (instant + offset) * grid.every)
        if len(wrong):
            problems.append(f"wrong '{name}' in {first_rows(wrong)}")
    return problems


def find_geometry_problems(bundles: BundleColumns, geo: bytes | None, crs: str | None) -> list[str]:
    """Check the WKB polygons against the columns, and the GeoParquet metadata."""
    problems = []
    start = 0
    wrong: list[npt.NDArray[Any]] = []
    for chunk in bundles.geometry.chunks:
        rectangle = bundles.rectangle[start : start + len(chunk)]
        wrong.append(np.flatnonzero(_differs(chunk, rectangle)) + start)
        start += len(chunk)
    rows = np.concatenate(wrong) if wrong else np.zeros(0, np.int64)
    if len(rows):
        problems.append(f"'geometry' is not the rectangle in {first_rows(rows)}")
    return problems + _find_geo_problems(bundles, geo, crs)


def _differs(chunk: Any, rectangle: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if not len(chunk):
        return np.zeros(0, dtype=bool)
    expected = np.zeros(len(chunk), dtype=WKB_POLYGON)
    expected["byte_order"], expected["kind"] = 1, 3
    expected["rings"], expected["points"] = 1, 5
    expected["xy"] = rectangle[:, CORNERS]
    _, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    differs: npt.NDArray[np.bool_] = np.diff(ends) != WKB_POLYGON.itemsize
    if not differs.any():
        stored = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(len(chunk), -1)
        differs = (stored != expected.view(np.uint8).reshape(len(chunk), -1)).any(axis=1)
    return differs


def _find_geo_problems(bundles: BundleColumns, raw: bytes | None, crs: str | None) -> list[str]:
    try:
        geo = json.loads(raw or b"", object_pairs_hook=no_duplicates)
        bbox = geo["columns"]["geometry"].pop("bbox")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ["the 'geo' metadata of bundles.parquet is not that of GeoParquet"]
    problems = []
    if geo != _build_geo(crs):
        problems.append("the 'geo' metadata of bundles.parquet is not as documented")
    if not bundles.num_rows:
        return problems
    low, high = bundles.rectangle[:, :2].min(axis=0), bundles.rectangle[:, 2:].max(axis=0)
    if bbox != [*low.tolist(), *high.tolist()]:
        problems.append("the bounding box in the 'geo' metadata is not that of the cloaks")
    return problems


def _build_geo(crs: str | None) -> dict[str, Any]:
    """Build the GeoParquet metadata of a release, but for the bounding box."""
    column = {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "crs": None if crs is None else pyproj.CRS.from_user_input(crs).to_json_dict(),
    }
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


@dataclass(frozen=True)
class Members:
    """The usable rows of a policy: a known user, in a bundle of the row's window.

    Attributes
    ----------
    key
        ``user * num_windows + window``; ascending, each once.
    bundle
        Index of the bundle in the layout.
    row
        Number of the row in the policy file, from 0.
    sizes
        Of each bundle of the layout, how many distinct users it has.
    """

    key: Ints
    bundle: Ints
    row: Ints
    sizes: Ints

    def find(self, keys: Ints) -> Ints:
        """Find the positions of keys; -1 for those that are not there."""
        return find_sorted(self.key, keys)


def find_policy_problems(part: ParquetContents, log: Log) -> list[str]:
    """Check the columns of a policy file."""
    is_text = pa.types.is_string(log.ids.type)
    kind = log.ids.type if is_text else None
    expected = [("window", pa.int32()), ("user_id", kind), ("bundle_id", pa.int64())]
    problems = find_schema_problems(part, expected, "the policy", as_in_log=("user_id",))
    if problems:
        return problems
    if not is_text and not pa.types.is_integer(part.table.schema.field("user_id").type):
        problems.append("column 'user_id' of the policy holds no integers, as the log does")
    return problems + find_nulls(part, ("window", "user_id", "bundle_id"), "the policy")


def find_exposure(policy: Path, release: Path) -> list[str]:
    """Check that a policy file is readable by its owner only, and not in the release."""
    problems = []
    if os.name == "posix":
        mode = stat.S_IMODE(policy.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            problems.append(f"the policy file has mode {mode:04o}; expected 0600")
    if policy.resolve().is_relative_to(release.resolve()):
        problems.append("the policy file is inside the release folder")
    return problems


def build_members(
    part: ParquetContents, log: Log, grid: InstantGrid, layout: BundleLayout
) -> tuple[Members, list[str]]:
    """Match the rows of a policy with the users of the log and the bundles."""
    table = part.table
    user = _number(decode_column(table["user_id"]), log)
    window = table["window"].to_numpy().astype(np.int64)
    bundle = layout.find(table["bundle_id"].to_numpy())

    problems = []
    known = user >= 0
    if not known.all():
        problems.append(
            f"users that the log does not have in {first_rows(np.flatnonzero(~known))} "
            f"of the policy"
        )
    fitting = (bundle >= 0) & (layout.window[bundle] == window)
    if not fitting.all():
        problems.append(
            f"no bundle of that window in {first_rows(np.flatnonzero(~fitting))} of the policy"
        )
    usable = np.flatnonzero(known & fitting)
    key = user[usable] * grid.num_windows + window[usable]
    order = np.argsort(key, kind="stable")
    key, row = key[order], usable[order]
    repeated = np.flatnonzero(key[1:] == key[:-1]) + 1
    if len(repeated):
        problems.append(
            f"a user more than once in a window: {first_rows(np.sort(row[repeated]))} of the policy"
        )
    once = np.append(True, key[1:] != key[:-1])[: len(key)]
    pairs = list_distinct(bundle[row] * log.num_users + user[row])
    sizes = np.bincount(pairs // log.num_users, minlength=len(layout.ids))
    return Members(key[once], bundle[row[once]], row[once], sizes), problems


def _number(ids: Any, log: Log) -> Ints:
    try:
        ids = pc.cast(ids, log.ids.type)
    except pa.ArrowInvalid:
        # Integers beyond the type of the log's ids.
        ids = pc.cast(ids, pa.string())
        return _fill(pc.index_in(ids, value_set=pc.cast(log.ids, pa.string())))
    return _fill(pc.index_in(ids, value_set=log.ids))


def _fill(indices: Any) -> Ints:
    filled: Ints = pc.fill_null(indices, -1).to_numpy().astype(np.int64)
    return filled


def find_small_bundles(layout: BundleLayout, sizes: Ints, k: int) -> list[str]:
    """Check that every bundle has at least k users, and as many as it says."""
    problems = []
    small = np.flatnonzero(sizes < k)
    if len(small):
        problems.append(
            f"{len(small):,} bundles with fewer than {k} users, the smallest with "
            f"{int(sizes.min())} ({first_few(layout.ids[small])})"
        )
    differing = np.flatnonzero(sizes != layout.users)
    if len(differing):
        problems.append(
            f"{len(differing):,} bundles whose 'users' is not the number of users in them "
            f"({first_few(layout.ids[differing])})"
        )
    return problems
