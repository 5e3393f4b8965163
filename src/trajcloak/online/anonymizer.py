"""The same guarantee, instant by instant: what is published while reports still arrive.

Time is cut into instants and these into epochs. At the first instant of an epoch its users are
put into groups, on what is known and predicted of their ways; then each instant that closes is
published in these groups. A member who is absent once is out until the epoch ends, and a group
with fewer than k members left is silent. See ``docs/online.md``.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.algorithms import Policy
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import choose_threads
from trajcloak.online.epoch_groups import (
    choose_effort,
    choose_members,
    form_groups,
    lay_side_by_side,
)
from trajcloak.online.history import ABSENT, Recorder
from trajcloak.online.online_options import OnlineOptions
from trajcloak.online.prediction import PREDICTORS
from trajcloak.online.published_instant import (
    NO_GROUP,
    InstantRequests,
    PrivateInstant,
    PublishedInstant,
    build_no_requests,
    decide_instant,
)
from trajcloak.online.stream_tables import (
    TIME,
    USER,
    StreamUsers,
    X,
    Y,
    add_users,
    check_columns,
    check_reports,
)
from trajcloak.options import MAX_HEIGHT, MBR, PER_INSTANT, check_number, holds_fixed
from trajcloak.parts import PartSettings, build_parts
from trajcloak.requests.decide import check_vocabulary
from trajcloak.space import Region, check_cells, check_size, find_cell

NO_ATTRIBUTES = (USER, TIME, X, Y, "lon", "lat")
"""Names that request attributes cannot have."""

NEVER = np.iinfo(np.int64).min
"""Time of the last report of a user who has not reported."""

MOST_CLOSED = 100_000
"""Instants that may be closed at once: more are those of a wrong clock, or of another unit."""


@dataclass
class OpenInstant:
    """The last report of each user in an instant, and the requests that were sent in it.

    What is kept is the same in whatever order lines arrive.
    """

    # (users,): of the last report; NEVER where there is none.
    time: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    # (users, 2): of that report; ABSENT outside the region. If a user has several at that time, the
    # greatest by x, then y.
    cell: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), np.int32))
    # (users,): whether there are several reports of the user at that time.
    is_repeated: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    requests: list[pa.Table] = field(default_factory=list)  # As they came.

    def extend(self, num_users: int) -> None:
        """Add users who have not reported."""
        self.time = add_users(self.time, num_users, NEVER)
        self.cell = add_users(self.cell, num_users, ABSENT)
        self.is_repeated = add_users(self.is_repeated, num_users, False)

    def renumber(self, order: npt.NDArray[np.int64]) -> None:
        """Keep these users only, in this order."""
        self.time = self.time[order]
        self.cell = self.cell[order]
        self.is_repeated = self.is_repeated[order]


class OnlineAnonymizer:
    """Takes location reports and requests as they come, and says what may be published.

    Attributes
    ----------
    counts : Counter
        Lines that were not used, by reason; private.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from trajcloak.space import Region
    >>> options = OnlineOptions(k=2, every=60, epoch=3, rare="keep")
    >>> online = OnlineAnonymizer(options, Region(0.0, 0.0, 64.0, 6), ["category"], origin=0)
    >>> online.observe(
    ...     pa.table({"user_id": [1, 2], "time": [5, 7], "x": [1.5, 2.5], "y": [3.0, 3.0]})
    ... )
    >>> online.ask(pa.table({"user_id": [2], "time": [8], "category": ["food"]}))
    >>> (instant,) = online.advance(60)
    >>> instant.bundles.drop_columns(["window", "instant"]).to_pylist()
    [{'bundle_id': 0, 'x_min': 1.0, 'y_min': 3.0, 'x_max': 3.0, 'y_max': 4.0, 'users': 2}]
    >>> instant.requests.to_table().to_pylist()
    [{'bundle_id': 0, 'category': 'food'}]
    """

    def __init__(
        self,
        options: OnlineOptions,
        region: Region,
        requests: Sequence[str],
        *,
        origin: int,
        first: int = 0,
        threads: int | None = None,
    ) -> None:
        """Start with nobody known.

        Parameters
        ----------
        options : OnlineOptions
        region : Region
            Whoever is outside counts as absent.
        requests : sequence of str
            Names of the request attributes.
        origin : int
            When instant 0 begins; epochs are counted from there.
        first : int
            The first instant to publish, at which an epoch begins. Earlier ones are closed.
        threads : int, optional
            Default: all cores. Never changes what is published.
        """
        self._asked = options
        self._region = region
        self._names = list(requests)
        self._origin = origin
        self._threads = choose_threads(threads)
        check_region(region)
        check_names(self._names)
        check_vocabulary(options.vocabulary, self._names)
        asked = options.predictor
        self._predictor = PREDICTORS[asked] if isinstance(asked, str) else asked
        self._users = StreamUsers()
        # Of each user: instants since the last report, time of the latest one, and the group.
        self._missed = np.empty(0, np.int32)
        self._latest = np.empty(0, np.int64)
        self._group = np.empty(0, np.int32)
        self._open: dict[int, OpenInstant] = {}
        # Requests of instants that are closed and not published.
        self._waiting: dict[int, pa.Table] = {}
        self._next = self._first = first
        self._recorder = Recorder(options.epoch, options.lag)
        # Members who were absent, and present, after the instant at which groups were made.
        self._num_left = self._num_stayed = 0
        self.counts: Counter[str] = Counter()

    @property
    def clock(self) -> int | None:
        """The time that k users have reached, which fewer wrong clocks cannot move."""
        reached = self._latest[self._latest != NEVER]
        if len(reached) < self._asked.k:
            return None
        place = len(reached) - self._asked.k
        return int(np.partition(reached, place)[place])

    def observe(self, reports: pa.Table) -> None:
        """Take location reports: ``user_id`` (integers or text), ``time`` (integers), ``x``, ``y``.

        With one input also the request attributes, all null in a report without a request. They
        become text. A place that is no number is outside the region.

        Raises
        ------
        InputError
            If the columns are others, or a user or time is null; then nothing of them is used.
        """
        check_reports(reports, self._names if self._asked.one_input else [])
        if not reports.num_rows:
            return
        user = self._users.number(reports[USER])
        count = self._users.count
        self._latest = add_users(self._latest, count, NEVER)
        self._missed = add_users(self._missed, count, self._asked.hold)
        self._group = add_users(self._group, count, NO_GROUP)
        time = reports[TIME].cast(pa.int64()).to_numpy()
        np.maximum.at(self._latest, user, time)
        cell = _find_cells(reports, self._region)
        self.counts["outside the region"] += int((cell[:, 0] == ABSENT).sum())
        for opened, rows in self._select_open(time):
            opened.extend(count)
            last = opened.time, opened.cell, opened.is_repeated
            _keep_last(user[rows], time[rows], cell[rows], *last)
            if self._asked.one_input:
                opened.requests.append(self._take_requests(reports, rows))

    def ask(self, requests: pa.Table) -> None:
        """Take requests: ``user_id``, ``time`` and the request attributes; for two inputs.

        Attributes become text. Requests without a user or a time are counted, and not used.

        Raises
        ------
        InputError
            If the columns, or their types, are others.
        """
        if self._asked.one_input:
            raise OptionError(
                "a request came without a report; expected one input, in which reports carry "
                "requests; pass them to observe, or use two inputs"
            )
        check_columns(requests, "the requests", [USER, TIME, *self._names])
        for name, reason in ((USER, "no usable user id"), (TIME, "no usable time")):
            self.counts[reason] += requests[name].null_count
            requests = requests.filter(requests[name].is_valid())
        time = requests[TIME].cast(pa.int64()).to_numpy()
        for opened, rows in self._select_open(time):
            opened.requests.append(self._take_requests(requests, rows))

    def advance(self, now: int) -> list[PublishedInstant]:
        """Close all instants that ended ``late`` before ``now``; returns what is published."""
        asked, published = self._asked, []
        if now > self._origin + (self._next + MOST_CLOSED) * asked.every + asked.late:
            raise OptionError(
                f"now is {now}, which would close more than {MOST_CLOSED:,} instants at once; "
                f"expected a time soon after the last one, in the unit of --every; pass an earlier "
                f"now, or begin with another anonymizer and a later first"
            )
        while self._origin + (self._next + 1) * asked.every + asked.late <= now:
            self._close(self._next)
            if self._next >= self._first + asked.lag:
                published.append(self._publish(self._next - asked.lag))
            self._next += 1
        return published

    def list_members(self) -> pa.Table:
        """List who is in which group at the instant that was published last; private."""
        user = np.flatnonzero(self._group != NO_GROUP)
        return pa.table(
            {
                USER: self._users.list_ids().take(pa.array(user)),
                "bundle_id": self._group[user],
            }
        )

    def _take_requests(self, table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Take rows of requests, whose attributes become text.

        Tables have types of their own, which may depend on what was sent: in one that holds no
        request, attributes are of no type.
        """
        taken = table.select([USER, TIME, *self._names]).take(pa.array(rows))
        types = [(USER, pa.large_string()), (TIME, pa.int64())]
        return taken.cast(pa.schema([*types, *((name, pa.string()) for name in self._names)]))

    def _select_open(
        self, time: npt.NDArray[np.int64]
    ) -> Iterator[tuple[OpenInstant, npt.NDArray[np.int64]]]:
        """List the instants of some times, and the rows of each, but those too late or early."""
        instant = (time - self._origin) // self._asked.every
        is_late = instant < self._next
        # What is far ahead is of a wrong clock, and must not fill the memory.
        is_early = instant > self._next + self._asked.epoch + self._asked.lag
        self.counts["late"] += int(is_late.sum())
        self.counts["early"] += int(is_early.sum())
        rows = np.flatnonzero(~is_late & ~is_early)
        found, place = np.unique(instant[rows], return_inverse=True)
        for n, i in enumerate(found.tolist()):
            yield self._open.setdefault(i, OpenInstant()), rows[place == n]

    def _close(self, instant: int) -> None:
        """Settle where users were at an instant, and which requests count."""
        opened = self._open.pop(instant, OpenInstant())
        opened.extend(self._users.count)
        is_reported = opened.time != NEVER
        if self._asked.one_input:
            # Which of two rows at one time is the last cannot be told: the user counts as absent.
            self.counts["repeated"] += int(opened.is_repeated.sum())
            is_reported &= ~opened.is_repeated
        frame = np.where(is_reported[:, None], opened.cell, np.int32(ABSENT))
        self._missed = np.where(is_reported, np.int32(0), self._missed + np.int32(1))
        # Whoever has left the region is absent, and has no place in it that could be held.
        self._missed[is_reported & (opened.cell[:, 0] == ABSENT)] = self._asked.hold
        is_held = ~is_reported & (self._missed <= self._asked.hold)
        if is_held.any():
            frame[is_held] = self._recorder.get_frame(0, self._users.count)[is_held]
        self._recorder.add(frame)
        if not opened.requests:
            return
        requests = pa.concat_tables(opened.requests)
        if self._asked.one_input:
            last = opened.time[self._users.find(requests[USER])]
            requests = requests.filter(pa.array(requests[TIME].to_numpy() == last))
        self._waiting[instant] = requests

    def _publish(self, instant: int) -> PublishedInstant:
        """Publish an instant, in groups that are formed, or as they were."""
        is_start = instant % self._asked.epoch == 0
        if is_start:
            self._forget()
            self._group = self._form()
        frame = self._recorder.get_frame(self._asked.lag, self._users.count)
        is_gone = (self._group != NO_GROUP) & (frame[:, 0] == ABSENT)
        self._group[is_gone] = NO_GROUP
        is_member = self._group != NO_GROUP
        if not is_start:
            self._num_left += int(is_gone.sum())
            self._num_stayed += int(is_member.sum())
        users = np.bincount(self._group[is_member]).astype(np.int32)
        bundle_id = np.flatnonzero(users >= self._asked.k).astype(np.int32)
        # Numbers of members only fall while an epoch lasts: a silent group stays silent.
        rank = np.full(len(users) + 1, NO_GROUP, np.int32)
        rank[bundle_id] = np.arange(len(bundle_id), dtype=np.int32)
        shown = rank[self._group]
        self._group[shown == NO_GROUP] = NO_GROUP
        cells = frame[:, None].astype(np.uint32)
        cloaks = build_bounding_boxes(cells, shown, len(bundle_id), self._threads)
        parts = None
        if self._asked.parts is not None:
            settings = PartSettings(self._asked.parts, PER_INSTANT)
            parts = build_parts(cells, Policy(shown, cloaks), settings, MBR, self._threads)
        sent = self._waiting.pop(instant, None)
        user = np.flatnonzero(frame[:, 0] != ABSENT)
        return PublishedInstant(
            region=self._region,
            window=instant // self._asked.epoch,
            instant=instant,
            bundle_id=bundle_id,
            cloaks=cloaks[:, 0],
            users=users[bundle_id],
            parts=parts,
            requests=self._decide(sent),
            private=PrivateInstant(
                ids=self._users.list_ids().take(pa.array(user)),
                cells=frame[user],
                group=self._group[user],
                part=None if parts is None else parts.part[user, 0],
                sent=sent,
            ),
        )

    def _decide(self, sent: pa.Table | None) -> InstantRequests:
        """Choose the requests of an instant that are published."""
        if sent is None or not self._names:
            return build_no_requests(self._names)
        group = np.append(self._group, np.int32(NO_GROUP))[self._users.find(sent[USER])]
        shown, num_withheld = decide_instant(sent.select(self._names), group, self._asked)
        self.counts["requests withheld"] += num_withheld
        return shown

    def _form(self) -> npt.NDArray[np.int32]:
        """Form the groups of an epoch; returns the group of each user.

        Those who are known to be absent at an instant that is waited for take no part.
        """
        asked = self._asked
        frames = [
            self._recorder.get_frame(asked.lag - i, self._users.count) for i in range(asked.lag + 1)
        ]
        users = np.flatnonzero(np.all([frame[:, 0] != ABSENT for frame in frames], axis=0))
        group = np.full(self._users.count, NO_GROUP, np.int32)
        if len(users) < asked.k:
            return group
        effort = choose_effort(len(users), asked.epoch)
        futures = np.empty((len(users), 1, 0, 2), np.int32)
        if length := asked.epoch - asked.lag - 1:
            history = self._recorder.look_back(self._users.count)
            futures = self._predictor.predict(
                history, users, length, effort.num_futures, threads=self._threads
            )
        known = np.stack([frame[users] for frame in frames], axis=1)
        height = self._region.height
        cells = lay_side_by_side(known, futures, height)
        absence = self._num_left / max(1, self._num_left + self._num_stayed)
        members = choose_members(asked.k, absence, asked.epoch - asked.lag)
        group[users] = form_groups(cells, height, members, effort.level, self._threads)
        return group

    def _forget(self) -> None:
        """Forget users who were not seen for long, so that memory does not grow with time."""
        # Users whose first report is of an instant that is still open must not change how much
        # is remembered: whether they are known by now depends on the order of lines.
        self._recorder.trim(int(self._recorder.is_seen(self._users.count).sum()))
        is_seen = self._recorder.is_seen(self._users.count)
        for opened in self._open.values():
            opened.extend(self._users.count)
            is_seen |= opened.time != NEVER
        order = self._users.keep(is_seen)
        for opened in self._open.values():
            opened.renumber(order)
        self._recorder.renumber(order)
        self._missed, self._latest = self._missed[order], self._latest[order]
        self._group = np.full(len(order), NO_GROUP, np.int32)


def check_names(names: Sequence[str]) -> None:
    """Raise if a request attribute has a name that tells who was where, or when."""
    for name in names:
        if name in NO_ATTRIBUTES:
            raise holds_fixed(name)


def check_region(region: Region) -> None:
    """Raise if a region is no square whose cells can be told apart."""
    if not (all(map(math.isfinite, (region.x_min, region.y_min, region.side))) and region.side > 0):
        raise OptionError(
            "the region is no square; expected finite numbers, and a side above 0; pass another "
            "--region"
        )
    check_number("height", region.height, 1, MAX_HEIGHT)
    check_size(region)
    check_cells(region)


def _find_cells(reports: pa.Table, region: Region) -> npt.NDArray[np.int32]:
    """Find the cells of places; ABSENT where a place is outside the region, null or no number."""
    x, y = (reports[name].cast(pa.float64(), safe=False).to_numpy() for name in (X, Y))
    cells = np.full((len(x), 2), ABSENT, np.int32)
    _fill_cells(x, y, region.x_min, region.y_min, region.side, region.cell, region.height, cells)
    return cells


@njit(cache=True, nogil=True)
def _fill_cells(x, y, x_min, y_min, side, cell, height, cells):  # type: ignore[no-untyped-def]
    num_cells = 1 << height
    for row in range(len(x)):
        # NaN fails every comparison.
        if x_min <= x[row] < x_min + side and y_min <= y[row] < y_min + side:
            cells[row, 0] = find_cell(x[row], x_min, cell, num_cells)
            cells[row, 1] = find_cell(y[row], y_min, cell, num_cells)


@njit(cache=True, nogil=True)
def _keep_last(user, time, cell, last, last_cell, is_repeated):  # type: ignore[no-untyped-def]
    """Keep the last report of each user; of several at that time the greatest by x, then y."""
    for row in range(len(user)):
        u = user[row]
        is_repeated[u] = time[row] == last[u] or (is_repeated[u] and time[row] < last[u])
        is_greater = (cell[row, 0], cell[row, 1]) > (last_cell[u, 0], last_cell[u, 1])
        if time[row] > last[u] or (time[row] == last[u] and is_greater):
            last[u] = time[row]
            last_cell[u] = cell[row]
