"""The stages from a log to a release, in order. Read this first.

::

    read_log       files                    -> RequestLog          trajcloak.log
    build_places   RequestLog               -> Places, Region      trajcloak.space
    build_grid     RequestLog               -> TimeGrid            trajcloak.trajectories
    check_requests RequestLog               -> Treatment           trajcloak.hygiene
    stream_windows RequestLog, Places, Grid -> Window, Window, ... trajcloak.trajectories
    solve          cells, k                 -> Policy              trajcloak.algorithms
    build_bundles  Window, Policy           -> Bundles             trajcloak.bundles
    Release.write  Bundles                  -> release folder      trajcloak.release
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trajcloak.algorithms import Algorithm, build_algorithm
from trajcloak.bundles import Bundles, build_bundles, number_published_kinds, renumber_kinds
from trajcloak.cloaks import group_members
from trajcloak.errors import NotEnoughUsersError, OptionError
from trajcloak.hygiene import (
    RareColumn,
    Treatment,
    check_hygiene,
    count_rare,
    find_rare,
    list_attributes,
    select_values,
    treat_rare,
)
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import AnyLog, RequestLog
from trajcloak.manifest import LeftOut, add_up, build_manifest
from trajcloak.options import HOLD, KEEP, Options
from trajcloak.progress import Progress, silent
from trajcloak.published import Manifest
from trajcloak.release import Release, check_outputs, cut_policy, new_policy_file, write_policy
from trajcloak.space import Places, Region, build_places, default_height
from trajcloak.trajectories import (
    Ranges,
    SumSpans,
    TimeGrid,
    Window,
    build_grid,
    build_ingest,
    cut_windows,
    parse_duration,
    stream_windows,
)

DEFAULT_GAP = 2
"""Default of ``max_gap``, in steps of the grid."""


@dataclass(frozen=True)
class Prepared:
    """A log laid out in time and space, ready to be cut into windows.

    Attributes
    ----------
    log : RequestLog
    asked : Options
    grid : TimeGrid
    max_gap : int
        In the unit of the log's times.
    places : Places
    ranges : Ranges
        The instants of each window.
    threads : int
    """

    log: RequestLog
    asked: Options
    grid: TimeGrid
    max_gap: int
    places: Places
    ranges: Ranges
    threads: int

    def windows(self, progress: Progress = silent) -> Iterator[Window]:
        """Yield the windows in order."""
        return stream_windows(
            self.log,
            self.places,
            self.grid,
            length=self.asked.length,
            max_gap=self.max_gap,
            missing=self.asked.missing,
            threads=self.threads,
            progress=progress,
            ranges=self.ranges,
        )


def prepare(log: RequestLog, asked: Options, threads: int) -> Prepared:
    """Lay a log out in time and space."""
    grid, max_gap, ranges, region = lay_out(log, asked)
    places = build_places(log, height=asked.height, region=region, threads=threads)
    return Prepared(log, asked, grid, max_gap, places, ranges, threads)


def lay_out(
    log: AnyLog, asked: Options, spans: SumSpans | None = None
) -> tuple[TimeGrid, int, Ranges, Region | None]:
    """Choose the instants, the longest gap, the windows and, if asked for, the region.

    ``spans`` is as :func:`trajcloak.trajectories.build_grid` takes it.
    """
    every = _parse(asked.every, log, "every")
    grid = build_grid(log, every, hold=asked.missing == HOLD, spans=spans)
    max_gap = _parse(asked.max_gap, log, "max-gap") or DEFAULT_GAP * grid.every
    ranges = cut_windows(log, grid, length=asked.length, align=asked.align, hours=asked.windows)
    region = None if asked.region is None else _build_region(asked, in_metres=log.crs is not None)
    return grid, max_gap, ranges, region


@dataclass(frozen=True, repr=False)
class Result:
    """What :func:`anonymize` made: the release to publish, and the private policy.

    Attributes
    ----------
    release : Release
    users : pyarrow.Array
        Private: the ids of the log's users.
    rare : tuple of RareColumn
        Attributes with values that few users sent. Private: it is no part of the release.
    """

    release: Release
    users: pa.Array
    rare: tuple[RareColumn, ...]

    def __repr__(self) -> str:
        """Say how much there is, and of nobody: notebooks keep what they show."""
        return f"Result({self.release})"

    @property
    def manifest(self) -> Manifest:
        """The content of ``manifest.json``."""
        return self.release.manifest

    @cached_property
    def policy(self) -> pa.Table:
        """Private: which user is in which bundle."""
        return _build_policy_table(self.users, self.release.windows)

    def write(
        self,
        release: str | Path,
        policy: str | Path | None = None,
        *,
        progress: Progress = silent,
    ) -> None:
        """Write the release and, if asked for, the policy file: both or neither."""
        check_outputs(Path(release), None if policy is None else Path(policy))
        if policy is None:
            self.release.write(release, progress=progress)
            return
        with new_policy_file(cut_policy(self.policy), Path(policy)):
            self.release.write(release, progress=progress)

    def write_policy(self, path: str | Path) -> None:
        """Write the private policy file."""
        write_policy(self.policy, path)


def anonymize(
    log: RequestLog,
    k: int,
    *,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Result:
    """Bundle the users of a log so that every request has at least k possible senders.

    Parameters
    ----------
    log : RequestLog
        From :func:`trajcloak.read_log`.
    k : int
        Least number of users in a bundle; at least 2.
    threads : int, optional
        Default: all cores. Never changes the result.
    progress : Progress
        Called as work is done.
    **options
        The other fields of :class:`Options`.

    Raises
    ------
    OptionError
        If an option cannot be used.
    InputError
        If the log breaks a rule that depends on several rows, or a request attribute
        looks like identifiers or places and is not allowed.
    NotEnoughUsersError
        If no window has k users whose location is known throughout.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet")
    >>> result = tc.anonymize(log, k=50)
    >>> result.write("new-release", policy="new-policy.parquet")
    """
    asked = Options(k=k, **options)
    threads = choose_threads(threads)
    prepared = prepare(log, asked, threads)
    algorithm = choose_algorithm(prepared)
    published: list[Bundles] = []
    left_out = LeftOut(log.num_users)
    with ThreadPoolExecutor(1) as pool:
        # The first window is built meanwhile; neither needs the other.
        checking = pool.submit(check_requests, prepared)
        windows = prepared.windows(progress)
        first = next(windows, None)
        rare, treatment = checking.result()
    for window in chain([] if first is None else [first], windows):
        bundles = bundle_window(prepared, algorithm, window, treatment, progress)
        left_out.add(window, bundles)
        if bundles is not None:
            published.append(bundles)
    return Result(build_release(prepared, published, treatment, left_out), log.users, rare)


def choose_algorithm(prepared: Prepared) -> Algorithm:
    """Build the algorithm that is asked for."""
    asked, cell = prepared.asked, prepared.places.region.cell
    return build_algorithm(
        asked.algorithm,
        seed=asked.seed,
        tree=asked.tree,
        effort=asked.effort,
        suppress_above=asked.suppress_above and asked.suppress_above / cell**2,
        max_suppressed=asked.max_suppressed,
    )


def bundle_window(
    prepared: Prepared,
    algorithm: Algorithm,
    window: Window,
    treatment: Treatment | None,
    progress: Progress,
) -> Bundles | None:
    """Bundle the users of a window; None if they are fewer than k."""
    asked, height = prepared.asked, prepared.places.region.height
    if len(window.user) < asked.k:
        return None
    policy = algorithm.solve(
        window.cells, height, asked.k, asked.cloak, threads=prepared.threads, progress=progress
    )
    num_kinds = prepared.log.requests.kinds.num_rows
    bundles = build_bundles(window, policy, num_kinds, asked.k, treatment, prepared.threads)
    if not len(bundles.sizes):
        raise nobody_left(window.number)
    return bundles


def nobody_left(window: int) -> OptionError:
    """Say that all participants of a window would be left out."""
    return OptionError(
        f"window {window}: everybody would be left out; expected a price above the cost of the "
        f"cheapest bundle; pass a higher --suppress-above"
    )


def too_few_users(largest_window: int, num_users: int, k: int) -> NotEnoughUsersError:
    """Say that no window has k participants."""
    return NotEnoughUsersError(
        f"at most {largest_window} of {num_users} users take part in a window; expected at least "
        f"k = {k}; lower --k, or keep more users with --missing hold, a larger --max-gap or a "
        f"smaller --length"
    )


def check_requests(prepared: Prepared) -> tuple[tuple[RareColumn, ...], Treatment | None]:
    """Refuse requests that must not be published, and say what becomes of rare values."""
    log, asked, grid = prepared.log, prepared.asked, prepared.grid
    attributes = list_attributes(log)
    rare = find_rare(attributes, asked.rare_below or asked.k)
    published = attributes
    if asked.rare != KEEP:
        published = [select_values(a, ~mask) for a, mask in zip(attributes, rare, strict=True)]
    check_hygiene(log, attributes, published, asked.allow)
    windows = grid.origin + prepared.ranges * grid.every
    treatment = treat_rare(log.requests.kinds, attributes, rare, asked.rare)
    return count_rare(log, attributes, rare, windows), treatment


def build_release(
    prepared: Prepared,
    published: Sequence[Bundles],
    treatment: Treatment | None,
    left_out: LeftOut,
    renumber: Callable[..., Sequence[Bundles]] = renumber_kinds,
) -> Release:
    """Put the bundles of all windows together with their requests and manifest."""
    log, grid = prepared.log, prepared.grid
    if not published:
        raise too_few_users(left_out.largest_window, log.num_users, prepared.asked.k)
    left_out.add_outside(log.num_requests)
    kinds = log.requests.kinds if treatment is None else treatment.kinds
    number, kinds = number_published_kinds(published, kinds)
    published = renumber(published, number)
    ingest = build_ingest(log, grid, prepared.max_gap, left_out.located, prepared.threads)
    region = prepared.places.region
    totals = [(bundles.stop - bundles.start, add_up(bundles, region)) for bundles in published]
    manifest = build_manifest(
        log,
        prepared.asked,
        grid,
        prepared.max_gap,
        prepared.places,
        totals,
        left_out,
        ingest,
        kinds.column_names,
    )
    return Release(
        manifest=manifest,
        windows=published,
        kinds=kinds,
        region=prepared.places.region,
        moments=(grid.origin, grid.every) if log.has_timestamps else None,
        zone=log.zone,
    )


def _build_region(asked: Options, *, in_metres: bool) -> Region:
    assert asked.region is not None
    x_min, y_min, side = map(float, asked.region)
    return Region(x_min, y_min, side, asked.height or default_height(side, in_metres=in_metres))


def _parse(text: str | None, log: AnyLog, name: str) -> int | None:
    if text is None:
        return None
    return parse_duration(str(text), has_timestamps=log.has_timestamps, name=name)


def _build_policy_table(users: pa.Array, published: Sequence[Bundles]) -> pa.Table:
    parts = []
    first_id = 0
    for bundles in published:
        parts.append(build_policy_rows(users, bundles, first_id))
        first_id += len(bundles.sizes)
    return pa.concat_tables(parts)


def build_policy_rows(users: pa.Array, bundles: Bundles, first_id: int) -> pa.Table:
    """List the members of the bundles of a window, of which ``first_id`` is the first."""
    members, first = group_members(bundles.bundle, len(bundles.sizes))
    return pa.table(
        {
            "window": np.full(len(members), bundles.window, np.int32),
            "user_id": users.take(pa.array(bundles.user[members])),
            "bundle_id": np.repeat(np.arange(len(bundles.sizes)), np.diff(first)) + first_id,
        }
    )
