"""A policy and the requests of a window to bundles, ready to publish."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    sender = bundle[window.request_user]
    sent = sender >= 0
    packed = sender[sent].astype(np.int64)
    packed *= length
    packed += window.request_instant[sent]
    packed *= max(num_kinds, 1)
    packed += window.request_kind[sent]
    packed = _sort_distinct(packed, len(order) * length * max(num_kinds, 1))
    stretch, kind = np.divmod(packed, max(num_kinds, 1))
    request_bundle, request_instant = np.divmod(stretch, length)
    return Bundles(
        window=window.number,
        start=window.start,
        stop=window.stop,
        cloaks=policy.cloaks[order],
        sizes=sizes[order],
        request_bundle=request_bundle.astype(np.int32),
        request_instant=request_instant.astype(np.int32),
        request_kind=kind.astype(np.int32),
        user=window.user,
        bundle=bundle,
        suppressed_requests=int((~sent).sum()),
    )


def _sort_distinct(numbers: npt.NDArray[np.int64], stop: int) -> npt.NDArray[np.int64]:
    """List the distinct numbers, all below ``stop``, in ascending order."""
    if stop <= MARKS_PER_NUMBER * len(numbers):
        marked = np.zeros(stop, np.bool_)
        marked[numbers] = True
        return np.flatnonzero(marked)
    return np.unique(numbers)
