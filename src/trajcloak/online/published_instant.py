"""What is published of an instant, and what it was made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.log.request_values import merge_kinds
from trajcloak.online.online_options import OnlineOptions
from trajcloak.options import DROP
from trajcloak.parts import Parts
from trajcloak.requests.decide import find_known
from trajcloak.space import Region, list_edges

NO_GROUP = -1

CORNERS = ("x_start", "y_start", "x_stop", "y_stop")
CLOAK_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("bundle", "instant", "part")),
        *((name, pa.uint32()) for name in CORNERS),
        ("users", pa.int32()),
    ]
)


class InstantRequests(NamedTuple):
    """The distinct requests that each group shows at an instant, by group, then by kind."""

    group: npt.NDArray[np.int32]  # The group's number.
    kind: npt.NDArray[np.int32]  # A row of ``kinds``.
    kinds: pa.Table  # The distinct requests, sorted, null first.

    def to_table(self) -> pa.Table:
        """List what is shown, one request of a group a row: ``bundle_id`` and the attributes."""
        return self.kinds.take(pa.array(self.kind)).add_column(0, "bundle_id", pa.array(self.group))


@dataclass(frozen=True, repr=False)
class PrivateInstant:
    """Who was where at an instant, in which group, and what was sent; private."""

    ids: pa.Array  # Ids of the users whose location is known.
    cells: npt.NDArray[np.int32]  # (users, 2)
    group: npt.NDArray[np.int32]  # (users,): the group in which each is published; -1: in none.
    # (users,): the part of the group, if parts are asked for; -1: in none.
    part: npt.NDArray[np.int32] | None
    sent: pa.Table | None  # All requests of the instant: ``user_id``, ``time`` and attributes.


@dataclass(frozen=True, repr=False)
class PublishedInstant:
    """What is published of an instant.

    Attributes
    ----------
    region : Region
    window : int
        The epoch, in which groups stay the same.
    instant : int
    bundle_id : int32
        Numbers of the groups that are published, ascending; they begin anew in each epoch.
    cloaks : (groups, 4) uint32
        Cells, as :data:`trajcloak.cloaks.Cloaks`.
    users : int32
        How many members each cloak holds.
    parts : Parts or None
        The rectangles in which members are shown, if parts are asked for; its ``part`` is private.
    requests : InstantRequests
        As a table: ``requests.to_table()``.
    private : PrivateInstant
        What it was made of; no part of what is published.
    """

    region: Region
    window: int
    instant: int
    bundle_id: npt.NDArray[np.int32]
    cloaks: npt.NDArray[np.uint32]
    users: npt.NDArray[np.int32]
    parts: Parts | None
    requests: InstantRequests
    private: PrivateInstant

    @property
    def bundles(self) -> pa.Table:
        """The rectangles of bundles, or of their parts, and how many users each holds.

        Columns as in ``bundles.parquet`` of a release: ``window``, ``bundle_id``, ``instant``, with
        parts ``part``, then ``x_min``, ``y_min``, ``x_max``, ``y_max``, ``users``.
        """
        cells = self.list_cells()
        corners = np.column_stack([cells[name] for name in CORNERS])
        x_min, y_min, x_max, y_max = list_edges(self.region, corners)
        part = {} if self.parts is None else {"part": cells["part"]}
        return pa.table(
            {
                "window": np.full(len(cells), self.window, np.int32),
                "bundle_id": cells["bundle"],
                "instant": cells["instant"],
                **part,
                "x_min": x_min,
                "y_min": y_min,
                "x_max": x_max,
                "y_max": y_max,
                "users": cells["users"],
            }
        )

    def list_cells(self) -> pa.Table:
        """List the rectangles by bundle and part, in cells."""
        bundle, cloaks, users = self.bundle_id, self.cloaks, self.users
        part = np.zeros(len(bundle), np.int32)
        if self.parts is not None:
            counts = self.parts.counts[:, 0]
            cloaks, users = self.parts.cloaks, self.parts.sizes
            first = np.repeat(np.cumsum(counts) - counts, counts)
            part = (np.arange(len(users)) - first).astype(np.int32)
            bundle = np.repeat(bundle, counts)
        instant = np.full(len(bundle), self.instant, np.int32)
        return pa.table([bundle, instant, part, *cloaks.T, users], schema=CLOAK_SCHEMA)


def build_no_requests(names: Sequence[str]) -> InstantRequests:
    """Return what is shown where nothing was sent."""
    nothing = np.empty(0, np.int32)
    return InstantRequests(
        nothing, nothing, pa.table({name: pa.array([], pa.string()) for name in names})
    )


def decide_instant(
    sent: pa.Table, group: npt.NDArray[np.int32], asked: OnlineOptions
) -> tuple[InstantRequests, int]:
    """Choose the requests that are published, by groups, never by senders.

    See invariant 8 of ``docs/guarantee.md``. ``sent`` are the attributes of the requests of an
    instant, ``group`` the group in which each may be shown; -1: in none.

    Returns also how many of ``sent`` are not shown, repetitions of shown ones not counted, which
    is private.
    """
    is_empty = np.all([sent[name].is_null().to_numpy() for name in sent.column_names], axis=0)
    is_shown = (group >= 0) & ~is_empty
    num_sent = len(is_empty) - int(is_empty.sum())
    if not is_shown.any():
        return build_no_requests(sent.column_names), num_sent
    kinds, (number,) = merge_kinds([sent.filter(pa.array(is_shown))])
    entries = np.unique(np.column_stack([group[is_shown], number]), axis=0)
    is_good = find_known(kinds, asked.vocabulary)
    if asked.rare == DROP:
        is_good &= np.bincount(entries[:, 1], minlength=kinds.num_rows) >= asked.rare_below
    entries = entries[is_good[entries[:, 1]]].astype(np.int32)
    rank = np.cumsum(is_good, dtype=np.int32) - 1
    shown = InstantRequests(entries[:, 0], rank[entries[:, 1]], kinds.filter(pa.array(is_good)))
    return shown, num_sent - int(is_good[number].sum())
