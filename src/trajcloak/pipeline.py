"""The stages from a log to a release, in order. Read this first.

::

    read_log       files                    -> RequestLog          trajcloak.log
    build_places   RequestLog               -> Places, Region      trajcloak.space
    build_grid     RequestLog               -> TimeGrid            trajcloak.trajectories
    stream_windows RequestLog, Places, Grid -> Window, Window, ... trajcloak.trajectories
    solve          cells, k                 -> Policy              trajcloak.algorithms
    build_bundles  Window, Policy           -> Bundles             trajcloak.bundles
    Release.write  Bundles                  -> release folder      trajcloak.release
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak import __version__
from trajcloak.algorithms import ALGORITHMS, build_algorithm
from trajcloak.bundles import Bundles, build_bundles
from trajcloak.cloaks import CLOAKS, MBR, compute_areas, group_members
from trajcloak.errors import NotEnoughUsersError, OptionError
from trajcloak.kernels.threads import default_threads
from trajcloak.log import RequestLog
from trajcloak.output import PRIVATE, new_file
from trajcloak.progress import Progress, silent
from trajcloak.release import FORMAT_VERSION, Release, check_outputs, write_policy
from trajcloak.space import Places, Region, build_places
from trajcloak.trajectories import (
    MISSING,
    TimeGrid,
    Window,
    build_grid,
    format_duration,
    parse_duration,
    stream_windows,
)

MIN_K = 2
DEFAULT_GAP = 2
"""Default of ``max_gap``, in steps of the grid."""


@dataclass(frozen=True)
class Options:
    """Everything that a run is asked for; all of it is public.

    Attributes
    ----------
    k : int
        Least number of users in a bundle; at least 2.
    algorithm : str
    cloak : {"mbr", "quad"}
        Bounding boxes snapped to cells, or quadrants and semi-quadrants.
    every : str, optional
        Step of the instants, such as ``60s``; a whole number for integer times.
    length : int, optional
        Instants in a window; default: the whole log is one window.
    max_gap : str, optional
        Longest gap between reports to interpolate; default: twice ``every``.
    missing : {"withhold", "hold"}
        What to do with users whose location is not known at all instants.
    height : int, optional
        The region's side has ``2**height`` cells.
    region : (x_min, y_min, side), optional
        A square to use instead of one fitted to the log.
    suppress_above : float, optional
        Leave out users who would cost at least this much: the summed area of
        their cloaks over a window, in square units of the CRS.
    max_suppressed : float, optional
        Leave out at most this share of the users, where it saves most.
    """

    k: int
    algorithm: str = "traj-anon"
    cloak: str = MBR
    every: str | None = None
    length: int | None = None
    max_gap: str | None = None
    missing: str = "withhold"
    height: int | None = None
    region: tuple[float, float, float] | None = None
    suppress_above: float | None = None
    max_suppressed: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < MIN_K:
            raise OptionError(
                f"k is {self.k}; expected a whole number of at least {MIN_K}: with fewer, a bundle "
                f"would give its sender away; pass another --k"
            )
        for name, value, known in (
            ("algorithm", self.algorithm, ALGORITHMS),
            ("cloak", self.cloak, CLOAKS),
            ("missing", self.missing, MISSING),
        ):
            if value not in known:
                raise OptionError(
                    f"{name} is '{value}'; expected one of {', '.join(known)}; "
                    f"pass another --{name}"
                )
        if self.length is not None and self.length < 1:
            raise OptionError(f"length is {self.length}; expected at least 1; pass another --length")
        if self.suppress_above is not None and self.max_suppressed is not None:
            raise OptionError(
                "both a price and a budget for suppression are given; expected one of them; "
                "pass --suppress-above or --max-suppressed"
            )
        if self.suppress_above is not None and not self.suppress_above > 0:
            raise OptionError(
                f"suppress_above is {self.suppress_above}; expected an area above 0; "
                f"pass another --suppress-above"
            )
        if self.max_suppressed is not None and not 0 <= self.max_suppressed < 1:
            raise OptionError(
                f"max_suppressed is {self.max_suppressed}; expected a share from 0 up to 1, or "
                f"0% up to 100%; pass another --max-suppressed"
            )
        if self.region is not None and not (
            all(map(math.isfinite, self.region)) and self.region[2] > 0
        ):
            raise OptionError(
                "the region is not a square; expected its least x, its least y and the length of "
                "its side; pass another --region"
            )


@dataclass(frozen=True)
class Result:
    """What :func:`anonymize` made: the release to publish, and the private policy.

    Attributes
    ----------
    release : Release
    policy : pyarrow.Table
        Private: which user is in which bundle.
    """

    release: Release
    policy: pa.Table

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
        with new_file(Path(policy), PRIVATE) as file:
            pq.write_table(self.policy, file, compression="zstd", store_schema=False)
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
        If the log breaks a rule that depends on several rows.
    NotEnoughUsersError
        If no window has k users whose location is known throughout.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet")  # doctest: +SKIP
    >>> result = tc.anonymize(log, k=50)  # doctest: +SKIP
    >>> result.release.write("release")  # doctest: +SKIP
    """
    asked = Options(k=k, **options)
    threads = threads or default_threads()
    every = _parse(asked.every, log, "every")
    grid = build_grid(log, every)
    max_gap = _parse(asked.max_gap, log, "max-gap") or DEFAULT_GAP * grid.every
    region = None if asked.region is None else Region(*asked.region, asked.height or 16)
    places = build_places(log, height=asked.height, region=region, threads=threads)
    cell_area = places.region.cell**2
    algorithm = build_algorithm(
        asked.algorithm,
        suppress_above=asked.suppress_above and asked.suppress_above / cell_area,
        max_suppressed=asked.max_suppressed,
    )
    published: list[Bundles] = []
    left_out = _LeftOut(log)
    for window in stream_windows(
        log,
        places,
        grid,
        length=asked.length,
        max_gap=max_gap,
        missing=asked.missing,
        threads=threads,
        progress=progress,
    ):
        left_out.add_missing(window)
        if len(window.user) < k:
            left_out.add_below_k(window)
            continue
        policy = algorithm.solve(
            window.cells,
            places.region.height,
            k,
            asked.cloak,
            threads=threads,
            progress=progress,
        )
        bundles = build_bundles(window, policy, log.requests.kinds.num_rows, k)
        if not len(bundles.sizes):
            raise OptionError(
                f"window {window.number}: everybody would be left out; expected a price above the "
                f"cost of the cheapest bundle; pass a higher --suppress-above"
            )
        left_out.add_suppressed(bundles)
        published.append(bundles)
    if not published:
        raise NotEnoughUsersError(
            f"at most {left_out.largest_window} of {log.num_users} users take part in a window; "
            f"expected at least k = {k}; lower --k, or keep more users with --missing hold, a "
            f"larger --max-gap or a smaller --length"
        )
    return Result(
        Release(
            manifest=_build_manifest(log, asked, grid, max_gap, places, published, left_out),
            windows=published,
            kinds=log.requests.kinds,
            region=places.region,
            moments=(grid.origin, grid.every) if log.has_timestamps else None,
            zone=log.zone,
        ),
        _build_policy_table(log, published),
    )


class _LeftOut:
    """Counts who and what is not published, and why."""

    def __init__(self, log: RequestLog) -> None:
        self.largest_window = 0
        self.published_users = np.zeros(log.num_users, np.bool_)
        self.suppressed_users = np.zeros(log.num_users, np.bool_)
        self.why = {
            reason: {"user_windows": 0, "requests": 0}
            for reason in ("missing_location", "window_below_k", "suppressed")
        }

    def _add(self, reason: str, users: int, requests: int) -> None:
        self.why[reason]["user_windows"] += users
        self.why[reason]["requests"] += requests

    def add_missing(self, window: Window) -> None:
        self.largest_window = max(self.largest_window, len(window.user))
        self._add("missing_location", window.left_out_users, window.left_out_requests)

    def add_below_k(self, window: Window) -> None:
        self._add("window_below_k", len(window.user), len(window.request_user))

    def add_suppressed(self, bundles: Bundles) -> None:
        self._add("suppressed", bundles.num_suppressed, bundles.suppressed_requests)
        self.published_users[bundles.user[bundles.bundle >= 0]] = True
        self.suppressed_users[bundles.user[bundles.bundle < 0]] = True


def _parse(text: str | None, log: RequestLog, name: str) -> int | None:
    if text is None:
        return None
    return parse_duration(str(text), has_timestamps=log.has_timestamps, name=name)


def _build_manifest(
    log: RequestLog,
    asked: Options,
    grid: TimeGrid,
    max_gap: int,
    places: Places,
    published: Sequence[Bundles],
    left_out: _LeftOut,
) -> dict[str, Any]:
    region = places.region
    cell_area = region.cell**2
    areas = [compute_areas(bundles.cloaks) for bundles in published]
    num_cloaks = sum(area.size for area in areas)
    origin: int | str = grid.origin
    if log.has_timestamps:
        origin = str(np.datetime64(grid.origin, "us")) + ("Z" if log.zone else "")
    gone = ~left_out.published_users & ~left_out.suppressed_users
    return {
        "format_version": FORMAT_VERSION,
        "software": f"trajcloak {__version__}",
        "k": int(asked.k),
        "algorithm": asked.algorithm,
        "parameters": {
            "origin": origin,
            "every": format_duration(grid.every, has_timestamps=log.has_timestamps),
            "max_gap": format_duration(max_gap, has_timestamps=log.has_timestamps),
            "length": asked.length,
            "missing": asked.missing,
            "suppress_above": asked.suppress_above,
            "max_suppressed": asked.max_suppressed,
        },
        "cloak": asked.cloak,
        "crs": places.crs,
        "region": {"x_min": region.x_min, "y_min": region.y_min, "side": region.side},
        "height": region.height,
        "windows": len(published),
        "instants": sum(bundles.stop - bundles.start for bundles in published),
        "users": int(left_out.published_users.sum()),
        "bundles": sum(len(bundles.sizes) for bundles in published),
        "smallest_bundle": min(int(bundles.sizes.min()) for bundles in published),
        "cost": cell_area
        * math.fsum(
            float((area.sum(axis=1) * bundles.sizes).sum())
            for area, bundles in zip(areas, published, strict=True)
        ),
        "mean_cloak_area": cell_area * math.fsum(float(a.sum()) for a in areas) / num_cloaks,
        "requests": sum(len(bundles.request_kind) for bundles in published),
        "withheld": {
            "users": int(gone.sum()),
            "requests": sum(counts["requests"] for counts in left_out.why.values()),
            "why": left_out.why,
        },
        "suppressed": left_out.why["suppressed"]["user_windows"],
    }


def _build_policy_table(log: RequestLog, published: Sequence[Bundles]) -> pa.Table:
    parts = []
    first_id = 0
    for bundles in published:
        members, first = group_members(bundles.bundle, len(bundles.sizes))
        numbers = np.repeat(np.arange(len(bundles.sizes)), np.diff(first)) + first_id
        parts.append(
            pa.table(
                {
                    "window": np.full(len(members), bundles.window, np.int32),
                    "user_id": log.users.take(pa.array(bundles.user[members])),
                    "bundle_id": numbers,
                }
            )
        )
        first_id += len(bundles.sizes)
    return pa.concat_tables(parts)
