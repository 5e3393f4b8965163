"""A policy and the requests of a window to bundles, ready to publish."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.cloaks import Cloaks, order_by_cloaks
from trajcloak.trajectories import Window

MARKS_PER_NUMBER = 16
"""Up to so many bytes per request, marking the ones seen is faster than sorting them."""


@dataclass(frozen=True)
class Bundles:
    """The bundles of one window, numbered from 0 in order of their cloak sequences.

    Attributes
    ----------
    window : int
    start, stop : int
        Half-open range of instants.
    cloaks : (bundles, instants, 4) uint32
        Cells, as :data:`trajcloak.cloaks.Cloaks`.
    sizes : (bundles,) int32
    request_bundle, request_instant, request_kind : int32
        The distinct requests of each bundle and instant, in that order. Instants
        count from ``start``.
    user : (n,) int32
        Participants, as positions in the log's users. Private.
    bundle : (n,) int32
        Bundle of each participant; -1: suppressed. Private.
    suppressed_requests : int
        Requests of suppressed participants, which are not published.
    """

    window: int
    start: int
    stop: int
    cloaks: Cloaks
    sizes: npt.NDArray[np.int32]
    request_bundle: npt.NDArray[np.int32]
    request_instant: npt.NDArray[np.int32]
    request_kind: npt.NDArray[np.int32]
    user: npt.NDArray[np.int32]
    bundle: npt.NDArray[np.int32]
    suppressed_requests: int

    @property
    def num_suppressed(self) -> int:
        """How many participants are in no bundle."""
        return int((self.bundle < 0).sum())


def build_bundles(window: Window, policy: Policy, num_kinds: int, k: int) -> Bundles:
    """Number a policy's bundles and gather each one's sets of requests.

    Requests come in only here, after membership and cloaks are settled
    (invariant 1 of ``docs/guarantee.md``). Bundles of fewer than k users end the
    run (invariant 3): that would be an error of the algorithm, never of the log.

    Parameters
    ----------
    window : Window
    policy : Policy
        For the window's participants, in their order.
    num_kinds : int
        How many distinct requests the log has.
    k : int
    """
    sizes = policy.sizes
    if len(sizes) and int(sizes.min()) < k:
        raise AssertionError(f"a bundle has {int(sizes.min())} users, fewer than k = {k}")
    order = order_by_cloaks(policy.cloaks, sizes)
    number = np.full(policy.num_bundles + 1, -1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    bundle = number[policy.bundle]
    length = window.stop - window.start
    packed, suppressed_requests = _pack_requests(window, bundle, length, num_kinds)
    packed = _sort_distinct(packed, len(order) * length * num_kinds)
    request_bundle, request_instant, request_kind = _unpack(packed, length, num_kinds)
    return Bundles(
        window=window.number,
        start=window.start,
        stop=window.stop,
        cloaks=policy.cloaks[order],
        sizes=sizes[order],
        request_bundle=request_bundle,
        request_instant=request_instant,
        request_kind=request_kind,
        user=window.user,
        bundle=bundle,
        suppressed_requests=suppressed_requests,
    )


def _pack_requests(
    window: Window, bundle: npt.NDArray[np.int32], length: int, num_kinds: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Write bundle, instant and kind of each request as one number; counts the suppressed."""
    packed = np.empty(len(window.request_user), np.int64)
    count = _pack(
        bundle, window.request_user, window.request_instant, window.request_kind,
        length, num_kinds, packed,
    )  # fmt: skip
    return packed[:count], len(packed) - count


def _sort_distinct(numbers: npt.NDArray[np.int64], stop: int) -> npt.NDArray[np.int64]:
    """List the distinct numbers, all below ``stop``, in ascending order."""
    if stop <= MARKS_PER_NUMBER * len(numbers):
        marked = np.zeros(stop, np.bool_)
        marked[numbers] = True
        return np.flatnonzero(marked)
    return np.unique(numbers)


@njit(cache=True, nogil=True)
def _pack(bundle, user, instant, kind, length, num_kinds, packed):  # type: ignore[no-untyped-def]
    count = 0
    for r in range(len(user)):
        b = np.int64(bundle[user[r]])
        if b >= 0:
            packed[count] = (b * length + instant[r]) * num_kinds + kind[r]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _unpack(packed, length, num_kinds):  # type: ignore[no-untyped-def]
    """Undo :func:`_pack`; the numbers ascend, so most steps need no division."""
    bundle = np.empty(len(packed), np.int32)
    instant = np.empty(len(packed), np.int32)
    kind = np.empty(len(packed), np.int32)
    stretch = np.int64(0)
    for r in range(len(packed)):
        rest = packed[r] - stretch * num_kinds
        if rest >= num_kinds:
            stretch = packed[r] // num_kinds
            rest = packed[r] - stretch * num_kinds
        bundle[r] = stretch // length
        instant[r] = stretch % length
        kind[r] = rest
    return bundle, instant, kind
