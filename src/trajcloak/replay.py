"""Prepare a log again in the same way as for its release, to compare the two."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log import RequestLog
from trajcloak.options import Options
from trajcloak.pipeline import Prepared, prepare
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import PublishedWindow
from trajcloak.release.reading import open_table
from trajcloak.trajectories import Window


def prepare_like_release(log: RequestLog, release: PublishedRelease, threads: int) -> Prepared:
    """Prepare a log with the instants and cells that the manifest of its release states.

    Raises
    ------
    InputError
        If the release was not made of this log.
    """
    manifest = release.manifest
    made, region = manifest["parameters"], manifest["region"]
    asked = Options(
        k=manifest["k"],
        every=str(made["every"]),
        max_gap=str(made["max_gap"]),
        length=made["length"],
        missing=made["missing"],
        align=made.get("align", "none"),
        windows=made.get("windows"),
        height=manifest["height"],
        region=(region["x_min"], region["y_min"], region["side"]),
    )
    if log.has_timestamps != (release.times.moments is not None):
        raise wrong_log_error(release, "one has timestamps, the other instants")
    prepared = prepare(log, asked, threads)
    origin = made["origin"] if release.times.moments is None else release.times.moments[0]
    if prepared.layout.grid.origin != origin:
        raise wrong_log_error(release, "its instants start at another time")
    if prepared.layout.crs != manifest["crs"]:
        raise wrong_log_error(release, "it has another projection")
    return prepared


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
