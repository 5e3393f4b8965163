"""Measure how useful a release is: the errors of its answers to a fixed set of questions.

Questions are drawn at random around places and requests of the log. They do not depend on
the release, so that releases of the same log can be compared. Answers are compared with the
users and requests that are published; how much of the log is not is measured apart.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.cloaks import compute_areas, compute_union_areas
from trajcloak.drawn_questions import (
    CellBox,
    CellStep,
    draw_box,
    draw_count,
    draw_moves,
    find_followers,
)
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.options import check_number
from trajcloak.pipeline import Prepared
from trajcloak.progress import Progress, silent
from trajcloak.query import Answer, PublishedRelease, Rectangle, open_published
from trajcloak.query.bounds import ZERO
from trajcloak.query.release_arrays import PublishedWindow, build_cell_grid, read_request_rows
from trajcloak.replay import (
    check_members,
    find_bundles,
    find_published_window,
    list_windows,
    prepare_like_release,
    read_members,
    wrong_log_error,
)
from trajcloak.space import list_edges
from trajcloak.trajectories import NOWHERE, Window

MOST_INSTANTS = 5  # over which requests are asked for


@dataclass(frozen=True)
class Utility:
    """How well questions of one kind are answered.

    Errors and widths are relative to the true answer, or to 1 if that is 0.
    """

    question: str  # "count", "moves" or "requests"
    queries: int  # how many were asked
    mean_error: float  # of the estimate
    median_error: float
    mean_width: float  # of the bounds
    within: float  # share of the true answers that are within the bounds
    # Share of the users whom the questions ask about that the release leaves out, or leaves out the
    # requests of; true answers are without them.
    withheld: float


@dataclass(frozen=True)
class ShownAreas:
    """Means over users and instants of the areas that show them, in CRS units squared."""

    own: float  # of the rectangle that the user is in: the bundle's cloak, or the user's own part
    # Of all that the rectangles of the user's bundle cover: the cloak, as the paper measures it.
    union: float


def measure_areas(release: PublishedRelease, threads: int = 1) -> ShownAreas:
    """Measure how large the areas are in which a release shows its users."""
    grid = build_cell_grid(release.manifest)
    own = union = 0.0
    num_places = 0
    for window in release.windows:
        cells = grid.to_cells(window.rectangles).T.astype(np.uint32)
        covered = compute_union_areas(cells, window.first, threads).reshape(window.counts.shape)
        own += float((compute_areas(cells) * window.sizes).sum())
        union += float((covered * window.present).sum())
        num_places += int(window.present.sum())
    scale = grid.cell**2 / num_places
    return ShownAreas(own * scale, union * scale)


class _Truth(NamedTuple):
    """The participants of a window, their requests, and what is published of both."""

    window: Window
    is_published: npt.NDArray[np.bool_]  # of each participant
    staying: npt.NDArray[np.uint32]  # trajectories of those who are somewhere at all instants
    code: npt.NDArray[np.int64]  # value of each request; -1 for null
    sent: npt.NDArray[np.int64]  # the requests that have a value
    # Of each request: whether its value is shown in the set of its bundle and instant.
    is_shown: npt.NDArray[np.bool_]


class _Question(NamedTuple):
    """A question: the answer of the log, of what is published of it, and of the release."""

    everybody: int
    true: int
    answer: Answer


def measure_answers(
    log: RequestLog,
    release: str | Path,
    policy: str | Path,
    *,
    queries: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = silent,
) -> list[Utility]:
    """Do what :func:`trajcloak.measure_utility` says; ``log`` has the attributes of the release."""
    check_number("queries", queries, 1)
    check_number("seed", seed, 0)
    published = open_published(release)
    prepared = prepare_like_release(log, published, choose_threads(threads))
    workload = _Workload(prepared, published, Path(policy), progress)
    measured = []
    for number, (question, ask) in enumerate(workload.questions().items()):
        rng = np.random.default_rng([seed, number])
        asked = []
        for done in range(queries):
            progress(f"asking, {question}", done, queries)
            asked.append(ask(rng))
        progress(f"asking, {question}", queries, queries)
        measured.append(_judge(question, asked))
    return measured


def _judge(question: str, asked: Sequence[_Question]) -> Utility:
    """Compare true numbers with answers."""
    everybody, true, lower, estimate, upper = np.array(
        [(q.everybody, q.true, q.answer.lower, q.answer.estimate, q.answer.upper) for q in asked]
    ).T
    unit = np.maximum(true, 1)
    error = np.abs(estimate - true) / unit
    return Utility(
        question=question,
        queries=len(asked),
        mean_error=float(error.mean()),
        median_error=float(np.median(error)),
        mean_width=float(((upper - lower) / unit).mean()),
        within=float(((lower <= true) & (true <= upper)).mean()),
        withheld=float((everybody - true).sum() / max(everybody.sum(), 1)),
    )


class _Workload:
    """Draws questions, and answers each from the log and from the release."""

    def __init__(
        self, prepared: Prepared, release: PublishedRelease, policy: Path, progress: Progress
    ) -> None:
        self._region = prepared.layout.region
        self._release = release
        self._attribute = release.attributes[0] if release.attributes else ""
        if self._attribute:
            self._read_values(prepared.log, self._attribute)
        self._truths = list(self._find_truths(prepared, policy, progress))

    def _read_values(self, log: RequestLog, attribute: str) -> None:
        """Number the values of an attribute, and find them in the release."""
        if attribute not in log.requests.kinds.column_names:
            raise wrong_log_error(self._release, f"requests are not read with '{attribute}'")
        column = log.requests.kinds[attribute].combine_chunks().dictionary_encode()
        # The value of each distinct request of the log; -1: null.
        self._code = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        rows = read_request_rows(self._release.requests, attribute, self._release.windows)
        places = {value: place for place, value in enumerate(rows.values)}
        self._values = [_find_value(value, places) for value in column.dictionary.to_pylist()]
        # The code of each value in the release; and all values of all its sets.
        self._published = np.array([places.get(v, -1) for v in self._values] + [-1])
        of_set = np.repeat(np.arange(len(rows.first) - 1), np.diff(rows.first))
        self._num_values = max(len(rows.values), 1)
        self._keys = of_set * self._num_values + rows.code

    def _find_truths(
        self, prepared: Prepared, policy: Path, progress: Progress
    ) -> Iterator[_Truth]:
        """Find out what is published, window by window."""
        members = read_members(policy)
        check_members(members, self._release, policy)
        for window in list_windows(prepared, self._release, progress):
            if len(window.user) < prepared.layout.asked.bundle_size:
                continue
            bundle = find_bundles(prepared.log, window, members, policy)
            published = find_published_window(self._release, window, int((bundle >= 0).sum()))
            if not published.counts.all():
                window = _hide_silent(window, bundle - published.first_id, published)
            code = np.full(len(window.request_user), -1, np.int64)
            is_shown = np.zeros(len(code), np.bool_)
            if self._attribute:
                code = self._code[window.request_kind].astype(np.int64)
                sender = bundle[window.request_user]
                instant = window.start + window.request_instant.astype(np.int64)
                published_code = self._published[code]
                of_set = published.to_sets(sender - published.first_id, instant)
                is_shown = np.isin(of_set * self._num_values + published_code, self._keys)
                is_shown &= (sender >= 0) & (published_code >= 0)
            stays = (window.cells[..., 0] != NOWHERE).all(axis=1)
            staying = window.cells if stays.all() else window.cells[stays]
            yield _Truth(window, bundle >= 0, staying, code, np.flatnonzero(code >= 0), is_shown)

    def questions(self) -> dict[str, Callable[[np.random.Generator], _Question]]:
        """List the kinds of questions that can be asked of this release."""
        asked: dict[str, Callable[[np.random.Generator], _Question]] = {"count": self.ask_count}
        if any(self._weigh_moves()):
            asked["moves"] = self.ask_moves
        if any(len(truth.sent) for truth in self._truths):
            asked["requests"] = self.ask_requests
        return asked

    def ask_count(self, rng: np.random.Generator) -> _Question:
        """Ask how many users are in a region at an instant."""
        truth = self._choose(rng, [len(t.window.cells) for t in self._truths])
        ((box, i),) = steps = draw_count(rng, truth.window.cells, self._region.height)
        instant = truth.window.start + i
        answers = self._release.count(self._to_region(box), instant, instant)
        return _compare(truth, steps, answers[instant])

    def ask_moves(self, rng: np.random.Generator) -> _Question:
        """Ask how many users are in one region at one instant and in another at another."""
        truth = self._choose(rng, self._weigh_moves())
        steps = draw_moves(rng, truth.staying, self._region.height)
        asked = [(self._to_region(box), truth.window.start + i) for box, i in steps]
        return _compare(truth, steps, self._release.follow(asked))

    def ask_requests(self, rng: np.random.Generator) -> _Question:
        """Ask how many users sent a value in a region, over a few instants."""
        truth = self._choose(rng, [len(t.sent) for t in self._truths])
        window = truth.window
        sent = int(rng.choice(truth.sent))
        i, code = int(window.request_instant[sent]), truth.code[sent]
        place = window.cells[window.request_user[sent], i]
        box = draw_box(rng, place, self._region.height)
        last = min(i + int(rng.integers(MOST_INSTANTS)), window.cells.shape[1] - 1)
        instant = window.request_instant
        same = (truth.code == code) & (i <= instant) & (instant <= last)
        user = window.request_user[same]
        inside = box.holds(window.cells[user, instant[same]])
        answers = self._release.count_requests(
            self._to_region(box), self._attribute, window.start + i, window.start + last
        )
        answer = answers.get(self._values[code])
        return _Question(
            len(np.unique(user[inside])),
            len(np.unique(user[inside & truth.is_shown[same]])),
            ZERO if answer is None else answer.users,
        )

    def _choose(self, rng: np.random.Generator, weights: Sequence[int]) -> _Truth:
        shares = np.array(weights, np.float64)
        return self._truths[int(rng.choice(len(shares), p=shares / shares.sum()))]

    def _weigh_moves(self) -> list[int]:
        """Count, in each window, the users who can move from one instant to another."""
        return [len(t.staying) if t.staying.shape[1] > 1 else 0 for t in self._truths]

    def _to_region(self, box: CellBox) -> Rectangle:
        return Rectangle(*map(float, list_edges(self._region, np.array(box))))


def _hide_silent(
    window: Window, bundle: npt.NDArray[np.int64], published: PublishedWindow
) -> Window:
    """Leave out members of a stream's bundles, and their requests, while these are silent."""
    cells = window.cells.copy()
    cells[published.counts[bundle] == 0] = NOWHERE
    is_left = cells[window.request_user, window.request_instant, 0] != NOWHERE
    return replace(
        window,
        cells=cells,
        request_user=window.request_user[is_left],
        request_instant=window.request_instant[is_left],
        request_kind=window.request_kind[is_left],
    )


def _compare(truth: _Truth, steps: Sequence[CellStep], answer: Answer) -> _Question:
    """Count the users who are at all steps, and those of them who are published."""
    followers = find_followers(truth.window.cells, steps)
    return _Question(int(followers.sum()), int((followers & truth.is_published).sum()), answer)


def _find_value(value: Any, published: Collection[Any]) -> Any:
    """Find a value of the log in a release, where text of the log may have become a number."""
    if value not in published and isinstance(value, str):
        for type_ in (int, float):
            with suppress(ValueError):
                return type_(value)
    return value
