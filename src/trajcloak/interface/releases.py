"""A release in Python: tables, questions and plots; made a moment ago, or read from files."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.auditor import AuditReport
from trajcloak.errors import OptionError, import_extra, warn_caller
from trajcloak.given_values import Box, Time, to_time
from trajcloak.interface.audits import audit
from trajcloak.interface.logs import Log, LogInput, LogSource, find_input
from trajcloak.output import new_folder
from trajcloak.progress import Heard, listening
from trajcloak.quantities import show_moment
from trajcloak.query import UNLINKED, Answer, PublishedRelease, RequestAnswer, build_route
from trajcloak.query.published_release import build_published
from trajcloak.release.manifest_schema import Manifest
from trajcloak.release.reading import (
    BUNDLES_FILE,
    MANIFEST_FILE,
    REQUESTS_FILE,
    PublishedTable,
    check_outside_log,
    open_table,
    read_manifest,
)
from trajcloak.release.result import RunResult

FACTS = ("k", "attacker", "algorithm", "windows", "instants", "bundles", "users", "requests")
"""Fields of the manifest that a notebook shows."""

COLOUR = "#009E73"

need = partial(import_extra, use="plots and frames", extra="frames")

Step = tuple[Box, Time]
"""A region, and when to be there."""


class Made(NamedTuple):
    """How a release was made, if that was a moment ago."""

    run: RunResult
    given: LogInput
    vocabulary: Any  # As :func:`trajcloak.anonymize` was given it.


class Release:
    """What is published of a log; from :func:`anonymize` or :func:`open_release`.

    Attributes
    ----------
    manifest : dict
        How it was made, and its figures: the content of ``manifest.json``.

    Examples
    --------
    >>> import trajcloak as tc
    >>> release = tc.open_release("release")
    >>> release
    Release(k=50, windows=1, bundles=..., users=600, requests=...)
    >>> release.count((0, 0, 20_000, 20_000), 3).column_names
    ['instant', 't_start', 't_end', 'lower', 'estimate', 'upper']
    """

    def __init__(
        self, manifest: Manifest, *, path: Path | None = None, made: Made | None = None
    ) -> None:
        self.manifest = manifest
        self._path = path
        self._made = made

    def __repr__(self) -> str:
        """Show counts only: notebook output gets saved, so no ids."""
        found: Any = self.manifest
        shown = {name: found[name] for name in ("k", "windows", "bundles", "users", "requests")}
        shown |= {f"{name}_withheld": count for name, count in found["withheld"].items() if count}
        return f"Release({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def _repr_html_(self) -> str:
        found: Any = self.manifest
        rows = "".join(
            f"<tr><th>{name}</th><td>{escape(str(found[name]))}</td></tr>" for name in FACTS
        )
        return f"<table><caption>Release</caption>{rows}</table>"

    @cached_property
    def bundles(self) -> pa.Table:
        """For each bundle and instant, or each part there: when, the rectangle, how many users."""
        return _read_table(self._bundles_file)

    @cached_property
    def requests(self) -> pa.Table:
        """For each bundle and instant: the requests, each once."""
        return _read_table(self._published.requests)

    @property
    def policy(self) -> pa.Table:
        """Private: which user is in which bundle and, with parts per window, in which part.

        Raises
        ------
        OptionError
            If the release was read from files, which never hold it.
        """
        return self._get_made().run.policy

    @property
    def policy_parts(self) -> pa.Table | None:
        """Private: with parts per instant, which user is in which part at which instant."""
        return self._get_made().run.policy_parts

    @property
    def figures(self) -> dict[str, Any]:
        """Private: what became of the requests of the log; never in files, as :attr:`policy`."""
        return self._get_made().run.figures

    def to_pandas(self) -> Any:
        """Return the bundles as a frame of pandas, without geometry."""
        need("pandas")
        return self.bundles.drop_columns(["geometry"]).to_pandas()

    def to_geopandas(self) -> Any:
        """Return the bundles as a frame of GeoPandas, in the coordinate system of the release."""
        geopandas = need("geopandas")
        geometry = geopandas.GeoSeries.from_wkb(
            self.bundles["geometry"].to_pandas(), crs=self.manifest["crs"]
        )
        return geopandas.GeoDataFrame(self.to_pandas(), geometry=geometry)

    def count(
        self,
        region: Box,
        at: Time | None = None,
        *,
        first: Time | None = None,
        last: Time | None = None,
        crs: Any = None,
    ) -> pa.Table:
        """Count the users inside a region, instant by instant.

        Parameters
        ----------
        region
            Least x and y, greatest x and y; a box of shapely; or one box of GeoPandas, whose
            coordinate system counts.
        at
            When: the number of an instant, or a moment as text, of Python, pandas or numpy.
            Default: from ``first`` to ``last``.
        first, last
            The first and the last time. Default: those of the release.
        crs
            Coordinate system of the region; default: that of the release.

        Returns
        -------
        pyarrow.Table
            For each instant: when, and ``lower`` and ``upper``, bounds of the number of users
            that hold for certain, with an ``estimate`` between them.
        """
        times = _to_times(first, last, at)
        counted = self._published.count(self._published.place_region(region, crs), *times)
        instants = list(counted)
        return pa.table({**self._list_times(instants, instants), **_list_answers(counted.values())})

    def moves(self, steps: Sequence[Step], by: str | None = None, *, crs: Any = None) -> pa.Table:
        """Count the users who are inside all of several regions, each at its own time.

        Parameters
        ----------
        steps
            Pairs of a region and a time, as :meth:`count` takes them; two for moves from one
            region to another, more for a way; see :meth:`route`.
        by
            Count the requests that these users sent at these times instead, by the values of this
            attribute.
        crs
            Coordinate system of the regions; default: that of the release.

        Returns
        -------
        pyarrow.Table
            One row: from when to when, and how many users, as :meth:`count` says it; with ``by``
            as :meth:`count_requests`. A warning says so if steps lie in different windows, which
            are not linked: then the estimate is crude.
        """
        published = self._published
        placed = [(published.place_region(region, crs), to_time(time)) for region, time in steps]
        if published.crosses_windows(placed):
            warn_caller(UNLINKED)
        if by is not None:
            return self._tabulate_requests(by, published.follow_requests(placed, by))
        answer = published.follow(placed)
        instants = [published.times.find_instant(time) for _, time in placed]
        times = self._list_times([min(instants)], [max(instants)])
        return pa.table({**times, **_list_answers([answer])})

    def count_requests(
        self,
        region: Box,
        by: str,
        at: Time | None = None,
        *,
        first: Time | None = None,
        last: Time | None = None,
        crs: Any = None,
    ) -> pa.Table:
        """Count the requests sent inside a region, by the values of an attribute.

        Parameters
        ----------
        region, at, first, last, crs
            As for :meth:`count`.
        by
            The attribute.

        Returns
        -------
        pyarrow.Table
            For each value, the most frequent first: bounds and estimates of the number of requests
            and of the users who sent them. Values that nobody can have sent there are left out.
        """
        placed = self._published.place_region(region, crs)
        found = self._published.count_requests(placed, by, *_to_times(first, last, at))
        return self._tabulate_requests(by, found)

    def route(
        self,
        points: Any,
        width: float,
        first: Time | None = None,
        last: Time | None = None,
        *,
        crs: Any = None,
    ) -> list[Step]:
        """Turn a line into steps for :meth:`moves`: somebody who follows it at an even pace.

        Parameters
        ----------
        points
            Points (x, y), or a line of shapely.
        width
            How wide the way is, in units of the release.
        first, last, crs
            As for :meth:`count`.
        """
        times = self._published.times.between(*_to_times(first, last))
        steps = build_route(self._published.place_points(points, crs), width, times)
        return [(step.region, step.instant) for step in steps]

    def plot(self, at: Time | None = None, *, ax: Any = None) -> Any:
        """Draw the rectangles of an instant with matplotlib: the more of them, the darker.

        Parameters
        ----------
        at
            When; default: the first instant.
        ax : matplotlib.axes.Axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        published = self._published
        instant = published.times.ranges[0][0]
        if at is not None:
            instant = published.times.find_instant(to_time(at))
        if ax is None:
            ax = need("matplotlib.pyplot").subplots(layout="constrained")[1]
        collections = need("matplotlib.collections")
        window = next(w for w in published.windows if w.start <= instant < w.stop)
        parts = window.find_parts(instant)
        x_min, y_min, x_max, y_max = window.rectangles[:, parts]
        corners = np.array([[x_min, y_min], [x_max, y_min], [x_max, y_max], [x_min, y_max]])
        ax.add_collection(
            collections.PolyCollection(
                corners.transpose(2, 0, 1), facecolors=(COLOUR, 0.08), edgecolors=(COLOUR, 0.6)
            )
        )
        ax.autoscale_view()
        ax.set_aspect("equal")
        moment = published.times.describe_instant(instant)
        when = show_moment(instant if moment is None else moment)
        users = int(window.sizes[parts].sum())
        ax.set_title(f"{users:,} users in {len(window.users):,} bundles, {when}")
        unit = " (m)" if self.manifest["crs"] else ""
        ax.set_xlabel(f"x{unit}")
        ax.set_ylabel(f"y{unit}")
        return ax

    def save(
        self, path: str | Path, policy: str | Path | None = None, *, progress: Heard = False
    ) -> None:
        """Write the release folder and, if asked for, the policy file: both or neither.

        Parameters
        ----------
        path
            The folder, which must not exist.
        policy
            A new file for the private policy, which the audit needs. Readable by its owner only.
            With parts per instant, a second one, ``...-parts.parquet``, comes with it.
        progress
            Whether to show bars.

        Raises
        ------
        OutputError
            If a path exists already or cannot be written.

        Examples
        --------
        >>> import trajcloak as tc
        >>> release = tc.anonymize("log.parquet", k=50)
        >>> release.save("new-release", policy="new-policy.parquet")
        """
        if self._made is None and policy is None:
            assert self._path is not None
            with new_folder(Path(path)) as folder:
                for name in (BUNDLES_FILE, REQUESTS_FILE, MANIFEST_FILE):
                    shutil.copyfile(self._path / name, folder / name)
            return
        made = self._get_made()
        outputs = [Path(output) for output in (path, policy) if output is not None]
        check_outside_log([made.given.source, made.given.request_log], outputs)
        with listening(progress) as heard:
            made.run.write(path, policy, progress=heard)

    def audit(
        self,
        log: LogSource | None = None,
        *,
        policy: str | Path | None = None,
        k: int | None = None,
        replay: bool = False,
        progress: Heard = False,
    ) -> AuditReport:
        """Check, with code of its own, that the release keeps every rule and the guarantee.

        Parameters
        ----------
        log
            The log that it was made of. Default: the one that :func:`anonymize` was given. The
            partitions of a dask DataFrame are brought to this machine, into private files.
        policy
            The policy file; needed if the release was read from files.
        k
            The least number of possible senders that is asked for; default: that of the release.
        replay
            Whether to run the algorithm again, which must give the same groups.
        progress
            Whether to show bars.
        """
        with hold_in_files(self, policy) as (release, policy_file):
            return audit(
                self._find_input(log),
                release,
                policy_file,
                k=k,
                vocabulary=None if self._made is None else self._made.vocabulary,
                replay=replay,
                progress=progress,
            )

    def _find_input(self, log: LogSource | None) -> LogInput:
        if isinstance(log, Log):
            return log._given
        if self._made is None:
            if log is None:
                raise OptionError(
                    "no log is given; expected the one that the release was made of; pass its path"
                )
            return find_input(log, {})
        given = self._made.given
        return given if log is None else given._replace(source=find_input(log, {}).source)

    def _get_made(self) -> Made:
        if self._made is None:
            raise OptionError(
                "the release was read from files, which hold neither its policy nor private "
                "counts; expected a release that anonymize returned; use the policy file that was "
                "written with it"
            )
        return self._made

    @cached_property
    def _bundles_file(self) -> PublishedTable:
        return self._open(BUNDLES_FILE)

    @cached_property
    def _published(self) -> PublishedRelease:
        """The release as those see it who can ask it questions."""
        path = Path("release") if self._path is None else self._path
        return build_published(path, self.manifest, self._bundles_file, self._open(REQUESTS_FILE))

    def _open(self, name: str) -> PublishedTable:
        if self._path is not None:
            return open_table(self._path / name)
        return open_table(Path(name), self._get_made().run.encode_file(name))

    def _list_times(self, first: list[int], last: list[int]) -> dict[str, Any]:
        """List when each row of an answer is: its first instant, and its time."""
        times = self._published.times
        columns: dict[str, Any] = {"instant": pa.array(first, pa.int32())}
        if times.moments is not None:
            origin, every = times.moments
            for name, instants in (("t_start", first), ("t_end", [i + 1 for i in last])):
                moments = pa.array([origin + i * every for i in instants], pa.int64())
                columns[name] = moments.cast(pa.timestamp("us", times.zone))
        return columns

    def _tabulate_requests(self, by: str, found: dict[Any, RequestAnswer]) -> pa.Table:
        answers = found.values()
        return pa.table(
            {
                by: pa.array(list(found), self._published.requests.schema.field(by).type),
                **_list_answers((answer.requests for answer in answers), "requests_"),
                **_list_answers((answer.users for answer in answers), "users_"),
            }
        )


def open_release(path: str | Path) -> Release:
    """Read a release from its folder.

    Raises
    ------
    InputError
        If it cannot be read, or breaks a rule of ``docs/data-model.md``.

    Examples
    --------
    >>> release = open_release("release")
    >>> release.moves([((0, 0, 20_000, 20_000), 3), ((20_000, 0, 40_000, 20_000), 7)]).num_rows
    1
    """
    path = Path(path)
    opened = Release(read_manifest(path), path=path)
    # Damage is found now, not when a question is asked.
    _ = opened._published
    return opened


@contextmanager
def hold_in_files(release: Release, policy: str | Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield a release folder and its policy file; they are written if there are none yet."""
    if release._made is None:
        assert release._path is not None
        if policy is None:
            raise OptionError(
                "the release was read from files, which never hold its policy; expected the policy "
                "file, which is private; pass --policy"
            )
        yield release._path, Path(policy)
        return
    with TemporaryDirectory(prefix="trajcloak-") as name:
        folder = Path(name)
        release._made.run.write(folder / "release", folder / "policy.parquet")
        yield folder / "release", folder / "policy.parquet"


def _read_table(published: PublishedTable) -> pa.Table:
    content = published.content
    return pq.read_table(content if isinstance(content, Path) else pa.BufferReader(content))


def _to_times(
    first: Time | None, last: Time | None, at: Time | None = None
) -> list[int | str | None]:
    """List the first and the last time of a question; both are ``at``, if that is given."""
    if at is not None:
        if first is not None or last is not None:
            raise OptionError(
                "both a single time and a stretch of time are given; expected one of them; pass "
                "--at, or --from and --to"
            )
        first = last = at
    return [None if time is None else to_time(time) for time in (first, last)]


def _list_answers(answers: Any, prefix: str = "") -> dict[str, pa.Array]:
    listed: list[Answer] = list(answers)
    return {
        f"{prefix}lower": pa.array([answer.lower for answer in listed], pa.int64()),
        f"{prefix}estimate": pa.array([answer.estimate for answer in listed], pa.float64()),
        f"{prefix}upper": pa.array([answer.upper for answer in listed], pa.int64()),
    }
