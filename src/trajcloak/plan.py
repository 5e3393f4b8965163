"""Plan a release: what choices of k, parts and windows would give, measured on a sample.

Nothing here looks at requests, so that a choice made by it tells nothing about them
(``docs/guarantee.md``).

A random sample of a log's users would be spread more thinly than the users are, and its areas would
be larger than those of the release. So the sample is made of neighbourhoods: a few blocks of users
with similar trajectories, each with everybody in it. There, users are as dense as in the log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms import build_algorithm
from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import build_points
from trajcloak.bundles import find_eligible
from trajcloak.cloaks import compute_areas
from trajcloak.drawn_questions import CellStep, draw_count, draw_moves, find_followers
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.options import DEFAULT_ALGORITHMS, MBR, PER_WINDOW, Options
from trajcloak.parts import PartSettings, build_parts
from trajcloak.pipeline import prepare
from trajcloak.progress import Progress, silent
from trajcloak.query.bounds import bound_followers
from trajcloak.query.questions import Rectangle, RouteStep
from trajcloak.query.release_arrays import CellGrid, PublishedWindow
from trajcloak.trajectories import Window, WindowCutter

K_VALUES = (10, 50, 100)
MIDDLE_K = 50
"""What is tried if k is not given. Parts are tried with the middle one only: their areas, and the
errors of answers about users, do not depend on k."""

PARTS = (10, 5)  # least numbers of users in a part that are tried
SHARES = (6, 3, 1)  # windows of a sixth and of a third of the given length are tried, too
EFFORT = "low"  # how hard ``refined`` tries; a tenth of the time of its default
# Users times instants that are bundled for a choice, if they are enough for so many bundles.
MOST_CELLS = 600_000
LEAST_BUNDLES = 20
NEIGHBOURHOODS = 5
QUERIES = 200  # of each kind
UNIT_GRID = CellGrid((0.0, 0.0), 1.0)  # questions are asked in cells

Cells = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class PlannedRelease:
    """What one choice would give; None where no window has enough users, or instants to move."""

    length: int  # Instants in a window.
    k: int  # Least number of possible senders.
    members: int  # Least number of users in a bundle.
    parts: int | None  # Least number of users in a part; None: no parts.
    users: float  # Share of the users of each window who are withheld.
    # Share of the sets of requests that are withheld, since fewer than k members have a row.
    sets: float | None = None
    # Mean, over users and instants, of the area in which a user is shown, in square units of the
    # CRS.
    area: float | None = None
    # Mean errors, relative to the true numbers, of counts of users in a region, and of users who
    # move from one region to another within a window.
    count_error: float | None = None
    move_error: float | None = None


@dataclass(frozen=True)
class Plan:
    """What :func:`plan_rows` measured."""

    choices: list[PlannedRelease]  # By length, k and parts.
    users: int  # Users of the log.
    sampled: int  # Most users of a window who were bundled for a choice.
    in_metres: bool  # Whether areas are in square metres.


def plan_rows(
    log: RequestLog,
    *,
    every: str | None = None,
    max_gap: str | None = None,
    length: int | None = None,
    k: int | None = None,
    members: int | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> Plan:
    """Measure what ``refined`` would give for some choices; see :func:`trajcloak.plan_log`.

    Users are bundled with low effort: with the default effort areas are smaller, by a tenth to a
    fifth on generated logs. In a large log this is done on some windows and on whole
    neighbourhoods of users. Errors are then those of questions about so many users; the more
    users a question is about, the smaller is its error.
    """
    threads = choose_threads(threads)
    sizes = {n: n for n in K_VALUES} if k is None else {k: k if members is None else members}
    least_k, least_size = next(iter(sizes.items()))
    asked = Options(k=least_k, every=every, max_gap=max_gap, length=length, members=least_size)
    tried = [
        (with_k, size, parts)
        for with_k, size in sizes.items()
        for parts in (None, *PARTS)
        if parts is None or (parts < size and with_k == (k or MIDDLE_K))
    ]
    layout = prepare(log, asked, threads).layout
    longest = int(np.diff(layout.ranges).max())
    most = max(MOST_CELLS // longest, LEAST_BUNDLES * max(sizes.values()))
    lengths = sorted({max(1, longest // share) for share in SHARES})
    choices: list[PlannedRelease] = []
    for tried_length in lengths:
        sample = _Sample(log, replace(asked, length=tried_length), most, threads)
        for choice in tried:
            progress("trying choices", len(choices), len(lengths) * len(tried))
            choices.append(sample.measure(*choice))
    progress("trying choices", len(choices), len(choices))
    return Plan(choices, log.num_users, min(most, log.num_users), layout.crs is not None)


class _Sample:
    """Some windows of a log, each with at most ``most`` of its users."""

    def __init__(self, log: RequestLog, asked: Options, most: int, threads: int) -> None:
        prepared = prepare(log, asked, threads)
        self._region, self._threads = prepared.layout.region, threads
        cutter = WindowCutter(prepared.log, prepared.layout)
        filled = [n for n in range(len(prepared.layout.ranges)) if not cutter.is_empty(n)]
        self._length = int(np.diff(prepared.layout.ranges).max())
        most_windows = max(1, MOST_CELLS // (min(most, log.num_users) * self._length))
        chosen = np.unique(np.linspace(0, len(filled) - 1, most_windows).astype(np.int64))
        self._windows = [
            _take_neighbourhoods(cutter.cut(filled[number], threads), most, threads)
            for number in chosen
        ]

    def measure(self, k: int, members: int, parts: int | None) -> PlannedRelease:
        """Bundle the users of each window, and ask about them."""
        num_left_out = sum(window.left_out_users for window in self._windows)
        num_users = num_left_out + sum(int(window.reported.sum()) for window in self._windows)
        shown, sets, area, num_places = [], [], 0.0, 0
        for window in self._windows:
            if len(window.reported) < members:
                num_left_out += int(window.reported.sum())
                continue
            published, eligible = self._bundle(window, k, members, parts)
            shown.append((window.cells, published))
            sets.append(eligible.ravel())
            cells = published.rectangles.T.astype(np.uint32)
            area += float(compute_areas(cells) @ published.sizes)
            num_places += window.cells.shape[0] * window.cells.shape[1]
        planned = PlannedRelease(self._length, k, members, parts, num_left_out / max(1, num_users))
        if not shown:
            return planned
        return replace(
            planned,
            sets=1 - float(np.concatenate(sets).mean()),
            area=area / num_places * self._region.cell**2,
            count_error=self._ask(shown, draw_count),
            move_error=self._ask([s for s in shown if s[0].shape[1] > 1], draw_moves),
        )

    def _bundle(
        self, window: Window, k: int, members: int, parts: int | None
    ) -> tuple[PublishedWindow, npt.NDArray[np.bool_]]:
        """Bundle users; returns what would be published, in cells, and which sets are eligible."""
        algorithm = build_algorithm(DEFAULT_ALGORITHMS[MBR], effort=EFFORT, parts=parts)
        policy = algorithm.solve(
            window.cells, self._region.height, members, MBR, threads=self._threads
        )
        if parts is None:
            policy = replace(policy, part=np.zeros((len(window.user), 1), np.int32))
        settings = PartSettings(parts or members, PER_WINDOW)
        made = build_parts(window.cells, policy, settings, MBR, self._threads)
        published = PublishedWindow(
            first_id=0,
            first_set=0,
            start=window.start,
            stop=window.stop,
            users=policy.sizes.astype(np.int64),
            counts=made.counts.astype(np.int64),
            rectangles=np.ascontiguousarray(made.cloaks.T, np.float64),
            sizes=made.sizes.astype(np.int64),
            keeps_members=True,
        )
        return published, find_eligible(window, policy.bundle, policy.num_bundles, k)

    def _ask(
        self,
        shown: Sequence[tuple[Cells, PublishedWindow]],
        draw: Callable[[np.random.Generator, Cells, int], list[CellStep]],
    ) -> float | None:
        """Ask questions of one kind; returns their mean error, None if there is nobody to ask."""
        if not shown:
            return None
        rng = np.random.default_rng(0)
        errors = []
        for number in range(QUERIES):
            cells, published = shown[number % len(shown)]
            steps = draw(rng, cells, self._region.height)
            true = int(find_followers(cells, steps).sum())
            asked = [RouteStep(Rectangle(*map(float, b)), published.start + i) for b, i in steps]
            estimate = bound_followers(published, asked, UNIT_GRID).sum().estimate
            errors.append(abs(estimate - true) / max(true, 1))
        return float(np.mean(errors))


def _take_neighbourhoods(window: Window, most: int, threads: int) -> Window:
    """Take at most so many users of a window, block by block of users with similar trajectories.

    ``reported`` stays that of all participants, who are counted with it.
    """
    count = len(window.user)
    if count <= most:
        return window
    rows = np.arange(count, dtype=np.int32)
    blocks = build_blocks(build_points(window.cells), rows, most // NEIGHBOURHOODS, 0.5, threads)
    chosen = np.linspace(0, len(blocks) - 1, NEIGHBOURHOODS).astype(np.int64)
    rows = np.sort(np.concatenate([blocks[b] for b in chosen]))
    return replace(
        window,
        user=window.user[rows],
        cells=window.cells[rows],
        has_row=None if window.has_row is None else window.has_row[rows],
    )
