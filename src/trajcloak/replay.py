"""Prepare a log again in the same way as for its release, to compare the two."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.algorithms import Policy
from trajcloak.bundles import build_bundles, count_shown
from trajcloak.engines.engine import MemoryEngine
from trajcloak.errors import InputError
from trajcloak.log import RequestLog, hold_in_memory
from trajcloak.options import repeat_options
from trajcloak.pipeline import Prepared, prepare
from trajcloak.progress import Progress, silent
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import PublishedWindow
from trajcloak.release.manifest import LeftOut, add_up, build_figures
from trajcloak.release.reading import open_table
from trajcloak.release.result import BundleRange
from trajcloak.requests.decide import WindowKinds, decide_requests
from trajcloak.trajectories import NOWHERE, Window


def prepare_like_release(
    log: RequestLog,
    release: PublishedRelease,
    threads: int,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
) -> Prepared:
    """Prepare a log with the options that the manifest of its release states."""
    manifest, made = release.manifest, release.manifest["parameters"]
    if log.has_timestamps != (release.times.moments is not None):
        raise wrong_log_error(release, "one has timestamps, the other instants")
    prepared = prepare(log, repeat_options(manifest, vocabulary), threads)
    origin = made["origin"] if release.times.moments is None else release.times.moments[0]
    if "stream" not in made and prepared.layout.grid.origin != origin:
        raise wrong_log_error(release, "its instants start at another time")
    if prepared.layout.crs != manifest["crs"]:
        raise wrong_log_error(release, "it has another projection")
    return prepared


def list_windows(
    prepared: Prepared, release: PublishedRelease, progress: Progress = silent
) -> Iterator[Window]:
    """Yield the windows of a log as they are published in its release."""
    if "stream" in release.manifest["parameters"]:
        return _cut_epochs(prepared, release)
    return prepared.windows(progress)


def _cut_epochs(prepared: Prepared, release: PublishedRelease) -> Iterator[Window]:
    """Yield the published epochs of a stream; users who have left are nowhere."""
    log, region, made = prepared.log, prepared.layout.region, release.manifest["parameters"]
    assert release.times.moments is not None
    origin, every = release.times.moments
    needed = made["stream"]["lag"] + 1
    instant, sent = (log.time - origin) // every, (log.request_time - origin) // every
    places = np.stack(log.plane, axis=1) - (region.x_min, region.y_min)
    # Locations are in the middle of cells.
    cell = np.floor(places / region.cell).astype(np.uint32)
    for published in release.windows:
        length = published.stop - published.start
        rows = np.flatnonzero((instant >= published.start) & (instant < published.stop))
        cells = np.full((log.num_users, length, 2), NOWHERE, np.uint32)
        cells[log.user[rows], instant[rows] - published.start] = cell[rows]
        is_here = np.logical_and.accumulate(cells[..., 0] != NOWHERE, axis=1)
        user = np.flatnonzero(is_here[:, needed - 1]).astype(np.int32)
        cells[~is_here] = NOWHERE
        asked = np.flatnonzero((sent >= published.start) & (sent < published.stop))
        sender, within = log.request_user[asked], sent[asked] - published.start
        is_shown = is_here[sender, within] & np.isin(sender, user)
        asked, sender, within = asked[is_shown], sender[is_shown], within[is_shown]
        yield Window(
            number=published.start // length,
            start=published.start,
            stop=published.stop,
            user=user,
            reported=np.ones(len(user), np.bool_),
            has_row=None,
            cells=cells[user],
            request_user=np.searchsorted(user, sender).astype(np.int32),
            request_instant=within.astype(np.int32),
            request_kind=log.requests.kind[asked],
            left_out_users=0,
            left_out_requests=0,
        )


def wrong_log_error(release: PublishedRelease, reason: str) -> InputError:
    """Build the error for a release and a log that do not belong together."""
    return InputError(
        f"{release.path}: the release was not made of this log: {reason}; expected the same log "
        f"and columns; check the paths"
    )


def find_published_window(
    release: PublishedRelease, window: Window, num_users: int
) -> PublishedWindow:
    """Find a window of the log in its release; raises if it has another number of users there."""
    for published in release.windows:
        if published.start == window.start and published.users.sum() == num_users:
            return published
    raise wrong_log_error(release, f"window {window.number} has other users")


def read_members(policy: Path) -> pa.Table:
    """Read who is in which bundle from a policy file."""
    return open_table(policy).read(["window", "user_id", "bundle_id"])


def check_members(members: pa.Table, release: PublishedRelease, policy: Path) -> None:
    """Raise if a policy has other windows, bundles or numbers of members than the release."""
    users = np.concatenate([window.users for window in release.windows])
    places = [np.full(len(w.users), place) for place, w in enumerate(release.windows)]
    bundle, window = (members[name].to_numpy() for name in ("bundle_id", "window"))
    numbers, place = np.unique(window, return_inverse=True)
    if (
        len(numbers) != len(release.windows)
        or bundle.min() < 0
        or bundle.max() >= len(users)
        or (np.bincount(bundle, minlength=len(users)) != users).any()
        or (np.concatenate(places)[bundle] != place).any()
    ):
        raise InputError(
            f"{policy}: the policy file is not that of this release: it has other windows, bundles "
            f"or numbers of users in them; expected the file that was written with the release; "
            f"pass another --policy"
        )


def find_bundles(
    log: RequestLog, window: Window, members: pa.Table, policy: Path
) -> npt.NDArray[np.int64]:
    """Find the bundle of each participant of a window in a policy file; -1 for none."""
    users = log.users.take(pa.array(window.user))
    here = members.filter(pc.equal(members["window"], window.number))
    try:
        row = pc.index_in(users, here["user_id"].cast(users.type)).fill_null(-1).to_numpy()
    except pa.ArrowException as error:
        raise InputError(
            f"{policy}: holds other user ids than the log; expected the policy file of the "
            f"release; check the path"
        ) from error
    bundle: npt.NDArray[np.int64] = np.append(here["bundle_id"].to_numpy(), -1)[row]
    return bundle


def recount_requests(
    log: RequestLog,
    release: PublishedRelease,
    policy: Path,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
    *,
    threads: int = 1,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Count what became of each request of a log, as :attr:`trajcloak.Release.figures` says it."""
    prepared = prepare_like_release(log, release, threads, vocabulary)
    asked = prepared.layout.asked
    engine = MemoryEngine(threads)
    kinds, members = log.requests.kinds, read_members(policy)
    left_out = LeftOut()
    ranges, found = [], []
    for window in prepared.windows(progress):
        num_requests = len(window.request_user)
        left_out.num_requests += num_requests + window.left_out_requests
        left_out.add("missing_location", window.left_out_users, window.left_out_requests)
        if len(window.user) < asked.bundle_size:
            left_out.add("small_window", int(window.reported.sum()), num_requests)
            continue
        bundle = find_bundles(log, window, members, policy)
        published = find_published_window(release, window, int((bundle >= 0).sum()))
        number = np.where(bundle < 0, -1, bundle - published.first_id).astype(np.int32)
        length = window.stop - window.start
        bundles, unpublished, _ = build_bundles(
            window,
            log.users.take(pa.array(window.user)),
            Policy(number, np.zeros((len(published.users), length, 4), np.uint32)),
            kinds.num_rows,
            asked.k,
            keeps_rows=asked.link_safe,
        )
        left_out.add("suppressed", unpublished.reported, unpublished.suppressed_requests)
        left_out.add("few_reporters", 0, unpublished.few_reporters)
        totals = add_up(bundles, prepared.layout.region)
        shown = count_shown(bundles)
        ranges.append([BundleRange(engine.put([bundles]), 0, length, totals, shown)])
        found.append(WindowKinds(unpublished.kind, unpublished.sent))
    decided = decide_requests(engine, ranges, found, kinds, asked, is_text=False)
    facts = hold_in_memory(log, engine).facts
    return build_figures(facts, left_out, decided.counts, release.manifest["requests"])
