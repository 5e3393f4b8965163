"""Run a stream: lines come in, closed instants are published, epoch by epoch a release grows."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyproj

from trajcloak.errors import OptionError
from trajcloak.online.anonymizer import OnlineAnonymizer, check_names
from trajcloak.online.epoch_files import EpochFiles
from trajcloak.online.online_options import OnlineOptions
from trajcloak.online.published_instant import PublishedInstant
from trajcloak.online.stream_clock import StreamClock, find_agreed_time
from trajcloak.online.stream_lines import ReportLine, RequestLine, StreamLine
from trajcloak.online.stream_release import StreamRelease
from trajcloak.online.stream_state import StreamStart, StreamState
from trajcloak.online.stream_tables import TIME, USER, X, Y
from trajcloak.options import KEEP, PER_INSTANT, WGS84, check_height
from trajcloak.output import check_new
from trajcloak.release.reading import check_outside_releases, name_private_files
from trajcloak.space import Region, check_cells, choose_projection, fit_region

LINES_AT_ONCE = 1 << 16
"""Lines that are collected before they are looked at."""

MOST_HELD = 1 << 22
"""Lines that are kept until it is decided where and when the stream begins, reports and requests
each; requests with long values count as several."""

MOST_SENT = 1 << 22
"""Requests of an instant that are kept, in the order in which they arrive; those with long values
count as several."""

BEFORE = "before the stream began or went on"
"""Why lines of no published epoch are not used: the stream begins, and after a crash goes on, with
the first instant of an epoch."""

FIRST_USERS = 4
"""Times k: users whose last reports are kept until it is decided when the stream begins."""

REACH = 4.0
USUAL = 0.95
LEAST_METRES = 10_000.0
"""A region that is not given reaches, from the median place of the first users, this many times
as far as most of them are, and at least so many metres. Most: this share, and all but k - 1."""


class Stream:
    """Takes lines one by one, and publishes instants as they close.

    What is published is a function of the lines in their order; it does not matter in which pieces
    they arrive.

    The release, and the private policy file, are to stand at ``release`` and ``policy``. Times of
    ``options`` are in microseconds; ``names`` are the request attributes. ``box`` is what the
    region is to hold, as reports give places: x_min, y_min, x_max, y_max. By default the region is
    fitted to where users are at first, with room around. Its side has ``2**height``
    cells.
    """

    def __init__(
        self,
        state: StreamState,
        release: Path,
        policy: Path,
        options: OnlineOptions,
        names: Sequence[str],
        *,
        box: tuple[float, float, float, float] | None = None,
        height: int | None = None,
        threads: int | None = None,
    ) -> None:
        check_height(height)
        check_names(names)
        if box is not None:
            check_box(box)
        if (options.rare == KEEP or options.rare_below < 2) and options.vocabulary is None:
            raise OptionError(
                "rare requests are to be kept without a vocabulary; expected a list of the values "
                "that may be published, since what is published cannot be taken back; pass "
                "--vocabulary, or leave out --rare"
            )
        check_places(state, release, policy, options)
        self._state = state
        self._paths = release, policy
        self._asked = options
        self._names = list(names)
        self._box = box
        self._height = height
        self._threads = threads
        self._counts: Counter[str] = Counter()
        # Of this run.
        self.num_instants = self.num_epochs = 0
        self._has_left_epoch = False
        self._held_requests: list[RequestLine] = []
        self._num_held = 0
        self._project: pyproj.Transformer | None = None
        self._release: StreamRelease | None = None
        # Instants ahead of the next one to be closed whose lines are of use.
        self._num_open = options.epoch + options.lag + 1
        self._patience = self._num_open * options.every + options.late
        self._reset()
        if state.start is not None:
            self._release = StreamRelease(*self._paths, state, options, names)
            self._release.write()

    def _reset(self) -> None:
        """Wait for the stream to begin, or to go on."""
        start = self._state.start
        self._is_geographic = None if start is None else start.geographic
        # Until then: last reports of some users, when the stream begins, what is held.
        self._first: dict[str, ReportLine] = {}
        self._begins: int | None = None
        self._held_reports: list[ReportLine] = []
        # From then on: what is not looked at, and how many requests each open instant has.
        self._online: OnlineAnonymizer | None = None
        self._files: EpochFiles | None = None
        self._lines: list[StreamLine] = []
        self._num_sent: Counter[int] = Counter()
        self._clock = self._build_clock(0)

    @property
    def counts(self) -> Counter[str]:
        """Lines that were not used, by reason; private."""
        return self._counts + (self._online.counts if self._online else Counter())

    @property
    def has_begun(self) -> bool:
        """Whether instants were closed in this run."""
        return self._online is not None or self.num_instants > 0

    @property
    def is_agreed(self) -> bool:
        """Whether k users have reported times close to each other."""
        return self.has_begun or self._begins is not None

    @property
    def has_incomplete_epoch(self) -> bool:
        """Whether an epoch was begun in this run and is not complete."""
        return self._has_left_epoch or self._files is not None

    def take(self, line: StreamLine) -> Iterator[str]:
        """Take a line; returns what is published, as JSON lines."""
        if isinstance(line, ReportLine) and self._is_geographic is (not line.geographic):
            self._counts["no usable place"] += 1
            return
        if self._online is not None:
            yield from self._use(line)
        else:
            self._hold(line)
        if isinstance(line, ReportLine) and self._clock.is_lost:
            self._begin_anew()
            self._hold(line)
        if self._online is None and self._begins is not None and self._clock.is_over:
            self._begin()
            # No instant is closed yet, so the order matters among reports only.
            held: list[StreamLine] = [*self._held_requests, *self._held_reports]
            self._held_requests, self._held_reports, self._num_held = [], [], 0
            for earlier in held:
                yield from self._use(earlier)

    def _hold(self, line: StreamLine) -> None:
        """Keep a line until k users have reported the end of the first instant."""
        if isinstance(line, RequestLine):
            self._num_held += line.weight
            self._keep(line, self._held_requests, self._num_held)
            return
        if self._begins is not None:
            self._keep(line, self._held_reports, 1 + len(self._held_reports))
            self._clock.see(line.user, line.time)
            return
        # Those who reported last are last.
        self._first.pop(line.user, None)
        self._first[line.user] = line
        if len(self._first) > FIRST_USERS * self._asked.k:
            del self._first[next(iter(self._first))]
        alike = [first for first in self._first.values() if first.geographic == line.geographic]
        asked = self._asked
        span = max(asked.epoch, asked.hold + 1) * asked.every + asked.late
        agreed = find_agreed_time([first.time for first in alike], asked.k, span)
        if agreed is not None:
            self._is_geographic = line.geographic
            self._begins = self._find_begin(agreed)
            self._clock = self._build_clock(self._begins + asked.every + asked.late)
            for first in alike:
                self._hold(first)

    def _begin_anew(self) -> None:
        """Forget all that is not on disk: the stream goes on with another epoch, as after a crash.

        k users report times far after those that it has come to. It has waited for lines for so
        long, and would wait for ever.
        """
        self._counts[BEFORE] += len(self._held_reports) + len(self._lines)
        if self._online is not None:
            self._counts += self._online.counts
        self._has_left_epoch |= self._files is not None
        self._reset()

    def _build_clock(self, closes: int) -> StreamClock:
        return StreamClock(self._asked.k, self._asked.every, self._patience, closes)

    def _keep(self, line: StreamLine, held: list[Any], num_held: int) -> None:
        """Keep a line, unless it is too early or there are too many, ``num_held`` with this one."""
        is_early = self._begins is not None and line.time < self._begins
        if is_early or num_held > MOST_HELD:
            self._counts[BEFORE] += 1
        else:
            held.append(line)

    def _find_begin(self, now: int) -> int:
        """Find when the first instant begins: an epoch of which nothing was published."""
        every, start = self._asked.every, self._state.start
        if start is None:
            return now // every * every
        span = self._asked.epoch * every
        return start.origin + span * max(self._state.next_epoch, -(-(now - start.origin) // span))

    def _begin(self) -> None:
        """Decide where and when the stream begins, from location reports alone."""
        assert self._begins is not None
        asked, geographic = self._asked, bool(self._is_geographic)
        if self._state.start is None:
            last = {line.user: (line.x, line.y) for line in self._held_reports}
            places = np.array(list(last.values()), np.float64)
            region, crs = choose_stream_region(
                places, self._box, self._height, asked.k, geographic=geographic
            )
            self._state.decide(StreamStart(self._begins, region, crs, geographic))
            self._release = StreamRelease(*self._paths, self._state, asked, self._names)
        start = self._state.start
        assert start is not None
        first = (self._begins - start.origin) // asked.every
        self._online = OnlineAnonymizer(
            asked, start.region, self._names, origin=start.origin, first=first,
            threads=self._threads,
        )  # fmt: skip
        if start.geographic and start.crs is not None:
            self._project = pyproj.Transformer.from_crs(WGS84, start.crs, always_xy=True)
        self._clock = self._build_clock(self._clock.closes)

    def _use(self, line: StreamLine) -> Iterator[str]:
        """Use a line, and close the instants that it shows to be over."""
        asked, clock = self._asked, self._clock
        opens = clock.closes - asked.late - asked.every
        if isinstance(line, ReportLine):
            clock.see(line.user, line.time)
            ends = clock.ends
        else:
            ends = opens + self._num_open * asked.every
        if not opens <= line.time < ends:
            self._counts["late" if line.time < opens else "early"] += 1
            return
        if isinstance(line, RequestLine):
            instant = line.time // asked.every
            self._num_sent[instant] += line.weight
            if self._num_sent[instant] > MOST_SENT:
                self._counts["too many requests"] += 1
                return
        self._lines.append(line)
        if len(self._lines) >= LINES_AT_ONCE:
            self._look()
        while clock.is_over:
            yield from self._close()

    def _close(self) -> Iterator[str]:
        """Close the next instant; returns what is published."""
        assert self._online is not None
        self._look()
        closed = self._online.advance(self._clock.closes)
        self._clock.close()
        opens = (self._clock.closes - self._asked.late) // self._asked.every - 1
        self._num_sent = Counter({i: n for i, n in self._num_sent.items() if i >= opens})
        for instant in closed:
            yield from self._publish(instant)

    def _look(self) -> None:
        """Hand the lines that were collected to the anonymizer."""
        assert self._online is not None
        reports = [line for line in self._lines if isinstance(line, ReportLine)]
        requests = [line for line in self._lines if isinstance(line, RequestLine)]
        self._lines = []
        if reports:
            users, times, x, y, _ = zip(*reports, strict=True)
            if self._project is not None:
                x, y = self._project.transform(np.array(x), np.array(y))
            self._online.observe(
                pa.table({USER: users, TIME: np.array(times), X: np.array(x), Y: np.array(y)})
            )
        if requests:
            users, times, values = zip(*requests, strict=True)
            columns = {
                name: pa.array(column, pa.string())
                for name, column in zip(self._names, zip(*values, strict=True), strict=True)
            }
            self._online.ask(pa.table({USER: users, TIME: np.array(times), **columns}))

    def _publish(self, instant: PublishedInstant) -> Iterator[str]:
        """Publish an instant; who is in which bundle is on disk before anything else is done."""
        start, release, asked = self._state.start, self._release, self._asked
        assert start is not None
        assert release is not None
        if instant.instant % asked.epoch == 0 and len(instant.bundle_id):
            folder = self._state.begin_epoch(instant.window)
            moments = start.origin, asked.every
            self._files = EpochFiles(folder, self._names, start.region, moments)
            self._files.write_policy(instant, release.num_bundles)
        if self._files is None:
            return
        self._files.add(instant)
        self.num_instants += len(instant.bundle_id) > 0
        yield from spell_instant(instant, start, asked.every, release.num_bundles)
        if (instant.instant + 1) % asked.epoch == 0:
            self._files.close()
            self._files = None
            release.add(self._state.finish_epoch(instant.window))
            release.write()
            self.num_epochs += 1


def check_places(state: StreamState, release: Path, policy: Path, options: OnlineOptions) -> None:
    """Raise before anything is published if a release cannot follow, or would hold private files.

    Only the state of a stream knows which of its instants were published. Without it, what stands
    at ``release`` is of another stream, or of this one: then they would be published twice.
    """
    private = name_private_files(policy, None if options.parts is None else PER_INSTANT)
    check_outside_releases(state.path, "the state of the stream", "state", release.resolve())
    for file in private:
        check_outside_releases(file, "the policy file", "policy", release.resolve())
    if state.start is None:
        for path in (release, *private):
            check_new(path)


def check_box(box: tuple[float, float, float, float]) -> None:
    """Raise if what a region is to hold is no rectangle."""
    if not (all(map(math.isfinite, box)) and box[0] < box[2] and box[1] < box[3]):
        raise OptionError(
            "the region is no rectangle, or not on one half of the globe; expected its least x, "
            "least y, greatest x and greatest y; pass another --region"
        )


def choose_stream_region(
    places: npt.NDArray[np.float64],
    box: tuple[float, float, float, float] | None,
    height: int | None,
    k: int,
    *,
    geographic: bool,
) -> tuple[Region, str | None]:
    """Choose the region of a stream, and the coordinate system of the plane.

    ``places``, (users, 2), are where users are at first, as they report it; ``box`` is what the
    region is to hold, if it is given. Of at least 2k users, fewer than k who report false places
    do not make the region larger than the others do.
    """
    crs, (x, y) = None, places.T
    if geographic:
        lon, lat = np.median(places, axis=0).tolist()
        crs = choose_projection((lon, lat, lon, lat) if box is None else box)
        plane = pyproj.Transformer.from_crs(WGS84, crs, always_xy=True)
        x, y = plane.transform(x, y)
        box = None if box is None else plane.transform_bounds(*box)
    if box is None:
        middle_x, middle_y = float(np.median(x)), float(np.median(y))
        with np.errstate(over="ignore"):
            far = np.sort(np.maximum(np.abs(x - middle_x), np.abs(y - middle_y)))
        num_false = min(k - 1, len(far) // 2)
        reach = REACH * float(min(far[-1 - num_false], np.quantile(far, USUAL, method="lower")))
        reach = max(reach, LEAST_METRES) if geographic else reach or 1.0
        box = middle_x - reach, middle_y - reach, middle_x + reach, middle_y + reach
    check_box(box)
    region = fit_region(box, height, in_metres=geographic)
    check_cells(region)
    return region, crs


def spell_instant(
    instant: PublishedInstant, start: StreamStart, every: int, first_id: int
) -> Iterator[str]:
    """Write what is published of an instant as JSON, one line for each bundle."""
    since_1970 = [start.origin + (instant.instant + i) * every for i in (0, 1)]
    moments = [datetime(1970, 1, 1) + timedelta(microseconds=moment) for moment in since_1970]
    parts: dict[int, list[Any]] = {}
    for row in instant.bundles.to_pylist():
        shown = {name: row[name] for name in ("x_min", "y_min", "x_max", "y_max", "users")}
        parts.setdefault(row["bundle_id"], []).append(shown)
    requests: dict[int, list[Any]] = {}
    for row in instant.requests.to_table().to_pylist():
        requests.setdefault(row.pop("bundle_id"), []).append(row)
    for bundle, rectangles in parts.items():
        yield json.dumps(
            {
                "window": instant.window,
                "bundle_id": first_id + bundle,
                "instant": instant.instant,
                "t_start": f"{moments[0].isoformat()}Z",
                "t_end": f"{moments[1].isoformat()}Z",
                "parts": rectangles,
                "requests": requests.get(bundle, []),
            }
        )
