"""Attack a log's snapshot policies and bundles, or a release, with every class of attacker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.algorithms import Policy
from trajcloak.attackers.candidate_sets import (
    ATTACKERS,
    LINKING,
    CandidateSizes,
    Finding,
    Sent,
    Shown,
    Suspects,
    attack_bundles,
    attack_snapshots,
    build_sent,
    count_breaches,
    link_windows,
)
from trajcloak.bundles import join_bundles
from trajcloak.errors import NotEnoughUsersError, OptionError
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.log.request_values import Requests, merge_kinds
from trajcloak.log.types import to_plain
from trajcloak.options import TP_AWARE, Options
from trajcloak.pipeline import Prepared, anonymize_log, prepare
from trajcloak.progress import Progress, silent
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import build_cell_grid, read_request_table
from trajcloak.release.result import RunResult
from trajcloak.replay import (
    find_bundles,
    find_published_window,
    prepare_like_release,
    read_members,
)
from trajcloak.snapshot import BULK_DP, SNAPSHOT_POLICIES, Snapshot, solve_snapshot
from trajcloak.trajectories import Window

Finder = Callable[[Window], tuple[Policy, Shown] | None]
"""Finds the bundles of a window's participants and their requests; None if none are published."""


@dataclass(frozen=True)
class BreachStep:
    """One request of a breach."""

    instant: int
    fitting: int  # users who are mapped to its cloak
    left: int  # users who fit this request and all before it


@dataclass(frozen=True)
class Breach:
    """How the sender of one pseudonym is found, without naming anybody."""

    policy: str
    attacker: str
    steps: Sequence[BreachStep]
    bundle_algorithm: str
    bundle_candidates: int  # possible senders of the same requests when bundled


@dataclass(frozen=True)
class Attack:
    """What all attackers found: for each policy and attacker, and an example of a breach."""

    findings: Sequence[Finding]
    breach: Breach | None


def attack_policies(
    log: RequestLog,
    k: int,
    *,
    algorithms: Sequence[str] = ("traj-anon",),
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Attack:
    """Attack the snapshot policies of a log, and the bundles that would be published of it.

    See :func:`trajcloak.attack`; ``options`` are other fields of
    :class:`trajcloak.options.Options`.
    """
    # Nothing is published here, so rows that do not look alike are no reason to stop.
    options["rows_alike"] = True
    if not algorithms:
        raise OptionError("no algorithm is named; expected at least one; pass --algorithms")
    threads = choose_threads(threads)
    if not log.requests.kinds.num_columns:
        # Let every row carry the same request.
        kinds = pa.table({"request": ["any"]})
        requests = Requests(np.zeros(log.num_rows, np.int32), kinds, np.arange(log.num_rows))
        log = replace(log, requests=requests)
    finders = {}
    for name in algorithms:
        asked = Options(k=k, algorithm=name, **options)
        made = anonymize_log(log, asked, threads=threads, progress=progress)
        finders[name] = partial(_find_made, log, made)
    return _attack_windows(prepare(log, Options(k=k, **options), threads), finders, progress)


def _find_made(log: RequestLog, made: RunResult, window: Window) -> tuple[Policy, Shown] | None:
    """Find the bundles of a window in what was made of a log."""
    parts = [bundles for bundles in made.windows if bundles.window == window.number]
    if not parts:
        return None
    bundles = join_bundles(parts)
    bundle = np.repeat(np.arange(len(bundles.sizes), dtype=np.int32), bundles.sizes)
    member = pc.index_in(log.users.take(pa.array(window.user)), bundles.ids).fill_null(-1)
    policy = Policy(np.append(bundle, np.int32(-1))[member.to_numpy()], bundles.cloaks)
    return policy, Shown(bundles.request_bundle, bundles.request_instant, bundles.request_kind)


def attack_release(
    log: RequestLog,
    release: PublishedRelease,
    policy: str | Path,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> Attack:
    """Attack a release, and the snapshot policies of its log.

    ``log`` is the one that the release was made of, with its request attributes. The release goes
    by the name of its algorithm.
    """
    policy = Path(policy)
    members = read_members(policy)
    grid = build_cell_grid(release.manifest)
    requests, _ = read_request_table(release.requests, release.attributes, release.windows)
    values = {name: to_plain(requests[name].combine_chunks()) for name in release.attributes}
    _, (kind,) = merge_kinds([pa.table(values)])
    bundle_id, instant = (requests[name].to_numpy() for name in ("bundle_id", "instant"))

    def find(window: Window) -> tuple[Policy, Shown] | None:
        number = find_bundles(log, window, members, policy)
        if (number < 0).all():
            return None
        published = find_published_window(release, window, int((number >= 0).sum()))
        cells = grid.to_cells(published.cloaks)
        first = published.first_id
        here = slice(*np.searchsorted(bundle_id, [first, first + len(published.users)]))
        bundled = Policy(
            bundle=np.where(number < 0, -1, number - first).astype(np.int32),
            cloaks=np.ascontiguousarray(cells.transpose(1, 2, 0), np.uint32),
        )
        shown = Shown(
            (bundle_id[here] - first).astype(np.int32),
            (instant[here] - window.start).astype(np.int32),
            kind[here],
        )
        return bundled, shown

    prepared = prepare_like_release(log, release, choose_threads(threads))
    return _attack_windows(prepared, {str(release.manifest["algorithm"]): find}, progress)


def _attack_windows(
    prepared: Prepared, finders: Mapping[str, Finder], progress: Progress
) -> Attack:
    """Attack the snapshot policies and some policies of bundles, by name, window by window."""
    log, k, threads = prepared.log, prepared.layout.asked.k, prepared.threads
    height = prepared.layout.region.height
    names = [*SNAPSHOT_POLICIES, *finders]
    gathered: dict[str, list[CandidateSizes]] = {name: [] for name in names}
    suspects: dict[str, list[Suspects]] = {name: [] for name in names}
    breach = None
    for window in prepared.windows(progress):
        length = window.stop - window.start
        if len(window.user) < k:
            continue
        sent = build_sent(window.request_user, window.request_instant, window.request_kind)
        has_row = window.has_row
        if has_row is None:
            has_row = np.ones((len(window.user), length), np.bool_)

        found: dict[str, tuple[CandidateSizes, Suspects]] = {}
        snapshots: dict[str, list[Snapshot]] = {}
        for done, name in enumerate(SNAPSHOT_POLICIES):
            progress("attacking", done, len(names))
            snapshots[name] = [
                solve_snapshot(window.cells[:, i], height, k, name, threads) for i in range(length)
            ]
            found[name] = attack_snapshots(snapshots[name], sent, has_row, threads)
        for done, (name, find) in enumerate(finders.items(), len(SNAPSHOT_POLICIES)):
            progress("attacking", done, len(names))
            bundled = find(window)
            if bundled is None:
                continue
            found[name] = attack_bundles(window.cells, *bundled, has_row, threads)
            if breach is None:
                candidates = found[BULK_DP][0][TP_AWARE]
                breach = _find_breach(
                    snapshots[BULK_DP], candidates, sent, window, k, name, bundled[0]
                )
        for name, (sizes, possible) in found.items():
            gathered[name].append(sizes)
            suspects[name].append(replace(possible, user=window.user[possible.user]))
    if not gathered[BULK_DP]:
        raise NotEnoughUsersError(
            f"no window has k = {k} users whose location is known throughout; expected at least "
            f"one; lower --k, or pass --missing=hold or a smaller --length"
        )
    progress("attacking", len(names), len(names))
    findings = []
    for name in names:
        sizes = {
            attacker: np.concatenate([of_window[attacker] for of_window in gathered[name]])
            for attacker in ATTACKERS
            if attacker != LINKING
        }
        sizes[LINKING] = link_windows(suspects[name], log.num_users)
        findings += [count_breaches(name, attacker, sizes[attacker], k) for attacker in ATTACKERS]
    return Attack(findings, breach)


def _find_breach(
    snapshots: Sequence[Snapshot],
    candidates: npt.NDArray[np.int64],
    sent: Sent,
    window: Window,
    k: int,
    algorithm: str,
    bundled: Policy,
) -> Breach | None:
    """Choose the breach, of a sender in a bundle, with the fewest candidates, then requests."""
    first = sent.first[:-1]
    bundle = bundled.bundle[sent.user[first]]
    is_found = (candidates[first] < k) & (bundle >= 0)
    if not is_found.any():
        return None
    order = np.lexsort((np.diff(sent.first), candidates[first], ~is_found))
    requests = slice(sent.first[order[0]], sent.first[order[0] + 1])
    sender = sent.user[requests][0]
    left = np.ones(len(snapshots[0].cloak), np.bool_)
    steps = []
    for instant in np.unique(sent.instant[requests]):
        cloak = snapshots[instant].cloak
        fitting = cloak == cloak[sender]
        left &= fitting
        steps.append(BreachStep(window.start + int(instant), int(fitting.sum()), int(left.sum())))
    return Breach(
        policy=BULK_DP,
        attacker=TP_AWARE,
        steps=steps,
        bundle_algorithm=algorithm,
        bundle_candidates=int(bundled.sizes[bundle[order[0]]]),
    )
