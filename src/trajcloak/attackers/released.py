"""Attack a release as it was published, with every class of attacker."""

from pathlib import Path

import numpy as np

from trajcloak.algorithms.policy import Policy
from trajcloak.attackers.study import Attack, attack_windows
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.progress import Progress, silent
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import build_cell_grid
from trajcloak.replay import find_bundles, lay_out, other_log, read_members
from trajcloak.trajectories import Window


def attack_release(
    log: RequestLog,
    release: PublishedRelease,
    policy: str | Path,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Attack:
    """Attack a release, and the snapshot policies of its log.

    Parameters
    ----------
    log : RequestLog
        The log that the release was made of, with its request attributes. If there are
        none, every report counts as a request.
    release : PublishedRelease
    policy : path
        The private policy file.
    threads : int, optional
    progress : Progress

    Returns
    -------
    Attack
        The release goes by the name of its algorithm.

    Raises
    ------
    InputError
        If release, log and policy file do not belong together.
    """
    policy = Path(policy)
    members = read_members(policy)
    grid = build_cell_grid(release.manifest)
    windows = {window.start: window for window in release.windows}

    def bundle(window: Window) -> Policy:
        published = windows.get(window.start)
        number = find_bundles(log, window, members, policy)
        if published is None or (number >= 0).sum() != published.users.sum():
            raise other_log(release, f"window {window.number} has other users")
        cells = grid.to_cells(published.cloaks)
        return Policy(
            bundle=np.where(number < 0, -1, number - published.first_id).astype(np.int32),
            cloaks=np.ascontiguousarray(cells.transpose(1, 2, 0), np.uint32),
        )

    prepared = lay_out(log, release, choose_threads(threads))
    return attack_windows(prepared, {str(release.manifest["algorithm"]): bundle}, progress)
