"""One pass over the users of a log: who takes part, where they are, what they sent."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.audited_instants import InstantGrid, Locations, list_blocks, locate
from trajcloak.auditor.audited_log import Log
from trajcloak.auditor.bundle_checks import BundleLayout, Members
from trajcloak.auditor.findings import first_few
from trajcloak.auditor.request_checks import EncodedRequests
from trajcloak.auditor.search import find_runs, find_sorted, list_distinct, pick
from trajcloak.progress import Progress

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SLACK = 1e-6
"""CRS units that projection and interpolation may round away; 0 for planar reports."""

STAGE = "following users"


@dataclass
class Recount:
    """What the log and the policy say, for the checks to compare with the release.

    Attributes
    ----------
    participants
        Of each window of the log, how many users take part.
    takes_part
        Of each row of the policy that is usable, whether its user takes part.
    unlisted_user, unlisted_window
        Pairs of a user and a window who take part but are in no bundle.
    unlisted_reporting, unlisted_requests
        Of each window: those of the pairs with a report in it, and their requests.
    outside_requests
        Requests that fall into no window.
    missing_pairs, missing_requests
        Pairs of a user and a window, with a report in it, who do not take part, and
        their requests.
    num_located
        How many locations were compared with a cloak.
    outside
        Cloaks (rows of the layout) that do not hold a location of their users.
    num_outside
        How many locations are outside.
    touched
        Of each cloak and side (as the columns of its rectangle), whether a location of its
        users lies in the row or column of cells along that side.
    located
        How many locations are reported, interpolated, held.
    sent
        Requests that must be published: ``cloak * num_codes + code``, with duplicates.
    rare_requests, changed_requests
        Requests of users in a bundle that must be withheld because of a rare value, or
        published with one replaced.
    """

    participants: Ints
    takes_part: npt.NDArray[np.bool_]
    unlisted_reporting: Ints
    unlisted_requests: Ints
    touched: npt.NDArray[np.bool_]
    unlisted_user: list[Ints] = field(default_factory=list)
    unlisted_window: list[Ints] = field(default_factory=list)
    outside_requests: int = 0
    missing_pairs: int = 0
    missing_requests: int = 0
    num_located: int = 0
    num_outside: int = 0
    outside: list[Ints] = field(default_factory=list)
    located: Ints = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    sent: list[Ints] = field(default_factory=list)
    rare_requests: int = 0
    changed_requests: int = 0


@dataclass(frozen=True)
class RecountInput:
    """All that a recount needs.

    Attributes
    ----------
    x, y
        Planar coordinates of the rows of the log.
    coded
        The requests of the log.
    cell
        Side of a cell of the region.
    """

    log: Log
    x: Floats
    y: Floats
    coded: EncodedRequests
    grid: InstantGrid
    layout: BundleLayout
    members: Members
    cell: float


def recount(given: RecountInput, progress: Progress) -> Recount:
    """Follow every user through every window."""
    windows = given.grid.num_windows
    counted = Recount(
        participants=np.zeros(windows, dtype=np.int64),
        takes_part=np.zeros(len(given.members.key), dtype=bool),
        unlisted_reporting=np.zeros(windows, dtype=np.int64),
        unlisted_requests=np.zeros(windows, dtype=np.int64),
        touched=np.zeros(given.layout.rectangle.shape, dtype=bool),
    )
    num_rows = len(given.log.user)
    for block in list_blocks(given.log, given.grid):
        progress(STAGE, block.start, num_rows)
        user, time = given.log.user[block].astype(np.int64), given.log.time[block]
        locations = locate(user, time, given.x[block], given.y[block], given.grid)
        locations = locations.choose(given.grid.find_windows(locations.instant) >= 0)
        counted.located += locations.count_kinds()
        pairs, bundle = _follow(given, locations, counted)
        _collect(given, block, pairs, bundle, counted)
    progress(STAGE, num_rows, num_rows)
    return counted


def _follow(given: RecountInput, locations: Locations, counted: Recount) -> tuple[Ints, Ints]:
    """Find who takes part in which window, and compare their locations with the cloaks.

    Returns the pairs ``user * num_windows + window`` who take part, ascending, and the
    bundle of each; -1: none.
    """
    windows = given.grid.num_windows
    window = given.grid.find_windows(locations.instant)
    pairs, known = find_runs(locations.user * windows + window)
    whole = known == given.grid.window_sizes(pairs % windows)
    position = np.where(whole, given.members.find(pairs), -1)
    listed = position >= 0
    bundle = pick(given.members.bundle, position)
    counted.takes_part[position[listed]] = True
    counted.participants += np.bincount(pairs[whole] % windows, minlength=windows)
    counted.unlisted_user.append(pairs[whole & ~listed] // windows)
    counted.unlisted_window.append(pairs[whole & ~listed] % windows)

    at = np.flatnonzero(np.repeat(listed, known))
    within = locations.instant[at] - given.grid.starts[window[at]]
    cloak = given.layout.first[np.repeat(bundle, known)[at]] + within
    x_min, y_min, x_max, y_max = given.layout.rectangle[cloak].T
    x, y = locations.x[at], locations.y[at]
    rounded = given.log.geographic | ~locations.reported[at]
    slack = np.where(rounded, SLACK, 0.0)
    inside = (x >= x_min - slack) & (x <= x_max + slack)
    inside &= (y >= y_min - slack) & (y <= y_max + slack)
    counted.num_located += len(at)
    counted.num_outside += int((~inside).sum())
    counted.outside.append(list_distinct(cloak[~inside]))
    reach = given.cell + slack
    for side, touches in enumerate(
        (x <= x_min + reach, y <= y_min + reach, x >= x_max - reach, y >= y_max - reach)
    ):
        counted.touched[cloak[touches], side] = True
    return pairs[whole], bundle[whole]


def _collect(
    given: RecountInput, block: slice, pairs: Ints, bundle: Ints, counted: Recount
) -> None:
    """Sort the requests of a block into published and withheld.

    ``pairs`` and ``bundle`` are those of :func:`_follow`.
    """
    windows = given.grid.num_windows
    instant = (given.log.time[block] - given.grid.origin) // given.grid.every
    in_window = given.grid.find_windows(instant)
    row = given.log.row[block]
    code = given.coded.of_row[row]
    counted.outside_requests += int(((code >= 0) & (in_window < 0)).sum())
    chosen = np.flatnonzero(in_window >= 0)
    if not len(chosen):
        return
    code, instant, in_window = code[chosen], instant[chosen], in_window[chosen]
    reporting, rows = find_runs(given.log.user[block][chosen] * windows + in_window)
    requests = np.add.reduceat(code >= 0, np.cumsum(rows) - rows, dtype=np.int64)
    position = find_sorted(pairs, reporting)
    missing = position < 0
    counted.missing_pairs += int(missing.sum())
    counted.missing_requests += int(requests[missing].sum())
    of_pair = pick(bundle, position)
    unlisted = ~missing & (of_pair < 0)
    window = reporting % windows
    counted.unlisted_reporting += np.bincount(window[unlisted], minlength=windows)
    np.add.at(counted.unlisted_requests, window[unlisted], requests[unlisted])

    bundle_of_row = np.repeat(of_pair, rows)
    at = np.flatnonzero((bundle_of_row >= 0) & (code >= 0))
    row = row[chosen][at]
    withheld = given.coded.withheld[row]
    counted.rare_requests += int(withheld.sum())
    counted.changed_requests += int(given.coded.changed[row].sum())
    at = at[~withheld]
    within = instant[at] - given.grid.starts[in_window[at]]
    cloak = given.layout.first[bundle_of_row[at]] + within
    counted.sent.append(cloak * given.coded.num_codes + code[at])


def find_location_problems(counted: Recount, layout: BundleLayout) -> list[str]:
    """Find bundles whose cloaks do not contain all locations of their users."""
    if not counted.num_outside:
        return []
    cloaks = np.unique(np.concatenate(counted.outside))
    bundles = layout.ids[np.unique(layout.bundle[cloaks])]
    return [
        f"{counted.num_outside:,} of {counted.num_located:,} locations are outside "
        f"{len(cloaks):,} cloaks of {len(bundles):,} bundles ({first_few(bundles)})"
    ]


def find_loose_cloaks(counted: Recount, layout: BundleLayout) -> list[str]:
    """Find bounding boxes that are larger than the locations in them require."""
    loose = np.flatnonzero(~counted.touched.all(axis=1))
    if not len(loose):
        return []
    bundles = layout.ids[np.unique(layout.bundle[loose])]
    return [
        f"{len(loose):,} cloaks of {len(bundles):,} bundles are larger than the bounding boxes of "
        f"their users ({first_few(bundles)})"
    ]
