"""Predict where users will be, from where they and others have been.

A prediction decides how large cloaks become, never how many suspects a request has. It sees
location reports only.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.splitmix import below, scramble
from trajcloak.kernels.threads import run_sliced
from trajcloak.online.history import History

Futures = npt.NDArray[np.int32]
"""(users, futures, instants, 2): the cells of each user at the instants to come, in each of
several futures, which are equally likely."""

Users = npt.NDArray[np.int64]
"""Numbers of users whose location is known at the newest instant."""

NEAREST = 8
"""Earlier movers whose mean is taken where one future is asked for."""


MOST_SEARCHED_WIDELY = 100_000
WIDE, NARROW = (64, 1024), (16, 64)
"""Movers in a cell of the index, on average, and movers of a cell that are looked at, for so many
users and for more: the nearest of many movers predict better, where there is time to find them."""

MOST_RINGS = 3
"""Rings of cells around a user's own that are searched, the next only while movers are missing."""


class Predictor(Protocol):
    """Predicts the next instants."""

    def predict(
        self, history: History, users: Users, length: int, num_futures: int, *, threads: int = 1
    ) -> Futures:
        """Predict where users will be at the ``length`` instants after the newest of ``history``.

        Parameters
        ----------
        history : History
        users : Users
        length : int
            At least 1.
        num_futures : int
            How many futures are of use. Fewer are returned where the predictor has one only.
        threads : int
            Changes the time, never the result.
        """


class Damped:
    """Everybody goes on as before, slower from instant to instant.

    ``kept`` is the share of their speed that users keep from one instant to the next; 0: they stay.
    """

    def __init__(self, kept: float = 0.8) -> None:
        self._kept = kept

    def predict(
        self, history: History, users: Users, length: int, num_futures: int, *, threads: int = 1
    ) -> Futures:
        """Continue the newest movement; see :class:`Predictor`."""
        now = history.frames[-1, users]
        kept = np.cumsum(self._kept ** np.arange(1, length + 1))
        way = find_movement(history.frames)[users][:, None] * kept[:, None]
        futures: Futures = np.rint(now[:, None] + way).astype(np.int32)[:, None]
        return futures


class Learned:
    """Everybody does what others did who came by with the same heading.

    For each user, the earlier movers nearest in place, movement and top speed are found; each of
    them gives a future: from the user's place on, the way that this mover went. Where one future
    is asked for, it is their mean. A user near whom nobody has moved before goes on as
    :class:`Damped` says.

    Time is linear in users and movements: movers are looked up in a grid of places, and of a cell
    only so many are looked at as :data:`WIDE` or :data:`NARROW` says.
    """

    def predict(
        self, history: History, users: Users, length: int, num_futures: int, *, threads: int = 1
    ) -> Futures:
        """Continue as earlier movers did; see :class:`Predictor`."""
        count = NEAREST if num_futures == 1 else num_futures
        width = WIDE if len(users) <= MOST_SEARCHED_WIDELY else NARROW
        index = _build_index(history, length, *width)
        damped = Damped().predict(history, users, length, 1)[:, 0]
        futures = np.repeat(damped[:, None], num_futures, axis=1)
        asked = _describe(history, len(history.frames) - 1, users)
        # In the order of the index, neighbours look at the same movers, which are in the cache.
        order, _ = group_by_number(_find_places(asked, index.shift, index.side), index.side**2)
        run_sliced(
            lambda start, stop: _continue(
                index, history.frames, asked, order[start:stop], count, futures
            ),
            len(users),
            threads,
        )
        return futures


PREDICTORS: dict[str, Predictor] = {
    "learned": Learned(),
    "damped": Damped(),
    "hold": Damped(kept=0.0),
}


def find_movement(frames: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Find how far each user went from the instant before the newest; 0 where it is not known."""
    if len(frames) < 2:
        return np.zeros_like(frames[-1])
    before, now = frames[-2:]
    is_known = (before[:, :1] >= 0) & (now[:, :1] >= 0)
    return np.where(is_known, now - before, 0).astype(np.int32)


class MoverIndex(NamedTuple):
    """Earlier movers by the cell of a coarse grid that they were in."""

    shift: int  # Cells are shifted right by so many bits to cells of the coarse grid.
    side: int  # Cells on a side of the coarse grid.
    most_per_cell: int  # Movers of a cell that are looked at.
    # (side * side + 1,): where the movers of each coarse cell begin.
    first: npt.NDArray[np.int64]
    traits: npt.NDArray[np.int32]  # (movers, 5): as :func:`_describe` gives them.
    frame: npt.NDArray[np.int32]  # (movers,): where each mover is in the history.
    user: npt.NDArray[np.int32]


def _build_index(history: History, length: int, per_cell: int, most_per_cell: int) -> MoverIndex:
    """Index all movements that are known for one instant before and ``length`` after."""
    frames = history.frames
    is_known = frames[..., 0] >= 0
    traits, frame, user = [np.empty((0, 5), np.int32)], [], []
    for t in range(1, len(frames) - length):
        rows = np.flatnonzero(is_known[t - 1 : t + length + 1].all(axis=0))
        traits.append(_describe(history, t, rows))
        frame.append(np.full(len(rows), t, np.int32))
        user.append(rows.astype(np.int32))
    described = np.concatenate(traits)
    extent = int(frames.max(initial=0)) + 1
    side = max(1, int(np.sqrt(len(described) / per_cell)))
    shift = max(0, (extent // side).bit_length() - 1)
    side = ((extent - 1) >> shift) + 1
    order, first = group_by_number(_find_places(described, shift, side), side * side)
    return MoverIndex(
        shift,
        side,
        most_per_cell,
        first,
        described[order],
        np.concatenate([np.empty(0, np.int32), *frame])[order],
        np.concatenate([np.empty(0, np.int32), *user])[order],
    )


def _describe(history: History, t: int, users: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Describe users at an instant: place, movement from the instant before, top speed.

    All five are lengths, and differences in them count alike; other weights predicted no better.
    """
    moved = find_movement(history.frames[max(0, t - 1) : t + 1])
    return np.concatenate(
        [history.frames[t, users], moved[users], history.top_speed[users, None]], axis=1
    )


def _find_places(traits: npt.NDArray[np.int32], shift: int, side: int) -> npt.NDArray[np.int64]:
    """Find the cell of the coarse grid in which each mover is."""
    return (traits[:, 0].astype(np.int64) >> shift) * side + (traits[:, 1] >> shift)


@njit(cache=True, nogil=True)
def _continue(index, frames, asked, users, count, futures):  # type: ignore[no-untyped-def]
    """Fill ``futures[users]`` with the ways of the nearest movers, or with their mean.

    Users near whom no mover is found keep what ``futures`` holds. Which future a mover gives
    is a function of the user's own traits: of several users side by side, first futures
    must not all be those of the nearest mover.
    """
    num_futures, length = futures.shape[1:3]
    distance = np.empty(count, np.int64)
    nearest = np.empty(count, np.int64)
    for u in users:
        found = _find_nearest(index, asked[u], distance, nearest)
        if found == 0:
            continue
        if num_futures == 1:
            for j in range(length):
                for axis in range(2):
                    way = 0
                    for n in range(found):
                        way += _way(index, frames, nearest[n], j, axis)
                    futures[u, 0, j, axis] = asked[u, axis] + np.int32(np.rint(way / found))
            continue
        turn = below(_hash(asked[u]), found)
        for f in range(num_futures):
            mover = nearest[(turn + f) % found]
            for j in range(length):
                for axis in range(2):
                    way = _way(index, frames, mover, j, axis)
                    futures[u, f, j, axis] = asked[u, axis] + way


@njit(cache=True, nogil=True, inline="always")
def _way(index, frames, mover, j, axis):  # type: ignore[no-untyped-def]
    """Find how far a mover was ``j + 1`` instants later."""
    t = index.frame[mover]
    user = index.user[mover]
    return frames[t + 1 + j, user, axis] - frames[t, user, axis]


@njit(cache=True, nogil=True)
def _hash(traits):  # type: ignore[no-untyped-def]
    number = np.uint64(0)
    for i in range(len(traits)):
        number = scramble(number ^ np.uint64(np.uint32(traits[i])))
    return number


@njit(cache=True, nogil=True)
def _find_nearest(index, traits, distance, nearest):  # type: ignore[no-untyped-def]
    """Find the movers nearest to a user, nearest first; returns how many were found.

    Searches the user's cell of the coarse grid and the ring around it, then ring after ring
    while fewer movers are found than ``nearest`` has room for. Of equally near movers the one
    that comes first in the index is kept.
    """
    column = traits[0] >> index.shift
    row = traits[1] >> index.shift
    found = 0
    ring = 0
    while ring <= MOST_RINGS and (ring <= 1 or found < len(nearest)):
        for c in range(max(0, column - ring), min(index.side, column + ring + 1)):
            for r in range(max(0, row - ring), min(index.side, row + ring + 1)):
                if max(abs(c - column), abs(r - row)) != ring:
                    continue
                begin = index.first[c * index.side + r]
                end = index.first[c * index.side + r + 1]
                step = max(1, -(-(end - begin) // index.most_per_cell))
                for mover in range(begin, end, step):
                    apart = np.int64(0)
                    for i in range(5):
                        by = np.int64(index.traits[mover, i]) - np.int64(traits[i])
                        apart += by * by
                    found = _insert(distance, nearest, found, apart, mover)
        ring += 1
    return found


@njit(cache=True, nogil=True, inline="always")
def _insert(distance, nearest, found, apart, mover):  # type: ignore[no-untyped-def]
    """Insert a mover into the sorted list of the nearest; returns the list's new length."""
    if found == len(nearest):
        if apart >= distance[found - 1]:
            return found
        found -= 1
    place = found
    while place > 0 and distance[place - 1] > apart:
        distance[place] = distance[place - 1]
        nearest[place] = nearest[place - 1]
        place -= 1
    distance[place] = apart
    nearest[place] = mover
    return found + 1
