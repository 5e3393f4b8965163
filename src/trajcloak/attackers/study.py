"""Attack a log's snapshot policies and bundles, or a release, with every class of attacker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms import Algorithm, Policy, build_algorithm
from trajcloak.attackers.candidate_sets import (
    ATTACKERS,
    TP_AWARE,
    Finding,
    Sent,
    attack_bundles,
    attack_snapshots,
    build_sent,
    summarize,
)
from trajcloak.errors import NotEnoughUsersError, OptionError
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog
from trajcloak.options import MBR, Options
from trajcloak.pipeline import Prepared, prepare
from trajcloak.progress import Progress, silent
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import build_cell_grid
from trajcloak.replay import (
    find_bundles,
    find_published_window,
    prepare_like_release,
    read_members,
)
from trajcloak.snapshot import BULK_DP, SNAPSHOT_POLICIES, Snapshot, solve_snapshot
from trajcloak.trajectories import Window


@dataclass(frozen=True)
class BreachStep:
    """One request of a breach.

    Attributes
    ----------
    instant : int
    fitting : int
        Users who are mapped to its cloak.
    left : int
        Users who fit this request and all before it.
    """

    instant: int
    fitting: int
    left: int


@dataclass(frozen=True)
class Breach:
    """How the sender of one pseudonym is found, without naming anybody.

    Attributes
    ----------
    policy, attacker : str
    steps : sequence of BreachStep
    bundle_algorithm : str
    bundle_candidates : int
        Possible senders of the same requests when bundled.
    """

    policy: str
    attacker: str
    steps: Sequence[BreachStep]
    bundle_algorithm: str
    bundle_candidates: int


@dataclass(frozen=True)
class Attack:
    """What all attackers found.

    Attributes
    ----------
    findings : sequence of Finding
        One for each policy and attacker.
    breach : Breach or None
        An example, if there is one.
    """

    findings: Sequence[Finding]
    breach: Breach | None


def attack(
    log: RequestLog,
    k: int,
    *,
    algorithms: Sequence[str] = ("traj-anon",),
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Attack:
    """Attack the snapshot policies and the bundles of a log.

    Parameters
    ----------
    log : RequestLog
        If no request columns were named, every report counts as a request.
    k : int
    algorithms : sequence of str
        Whose bundles to attack.
    seed : int
    threads : int, optional
    progress : Progress
    **options
        Fields of :class:`trajcloak.options.Options` that say how to lay out the log.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet", tc.LogColumns(requests=("category", "detail")))
    >>> found = tc.attack(log, k=50)
    >>> [row.breaches for row in found.findings if row.policy == "traj-anon"]
    [0, 0, 0, 0]
    """
    asked = Options(k=k, seed=seed, **options)
    if not algorithms:
        raise OptionError("no algorithm is named; expected at least one; pass --algorithms")
    threads = choose_threads(threads)
    prepared = prepare(log, asked, threads)
    height = prepared.layout.region.height

    def bundle(bundler: Algorithm, window: Window) -> Policy:
        return bundler.solve(window.cells, height, k, MBR, threads=threads)

    bundlers = {name: partial(bundle, build_algorithm(name, seed=seed)) for name in algorithms}
    return attack_windows(prepared, bundlers, progress)


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

    def bundle(window: Window) -> Policy:
        number = find_bundles(log, window, members, policy)
        published = find_published_window(release, window, int((number >= 0).sum()))
        cells = grid.to_cells(published.cloaks)
        return Policy(
            bundle=np.where(number < 0, -1, number - published.first_id).astype(np.int32),
            cloaks=np.ascontiguousarray(cells.transpose(1, 2, 0), np.uint32),
        )

    prepared = prepare_like_release(log, release, choose_threads(threads))
    return attack_windows(prepared, {str(release.manifest["algorithm"]): bundle}, progress)


def attack_windows(
    prepared: Prepared, bundlers: Mapping[str, Callable[[Window], Policy]], progress: Progress
) -> Attack:
    """Attack the snapshot policies and some policies of bundles, window by window.

    Parameters
    ----------
    prepared : Prepared
    bundlers : dict
        For each policy by name, the function that bundles the users of a window.
    progress : Progress
    """
    log, k, threads = prepared.log, prepared.layout.asked.k, prepared.threads
    height = prepared.layout.region.height
    names = [*SNAPSHOT_POLICIES, *bundlers]
    gathered: dict[tuple[str, str], list[Finding]] = {
        (name, attacker): [] for name in names for attacker in ATTACKERS
    }
    breach = None
    num_windows = 0
    for window in prepared.windows(progress):
        if len(window.user) < k:
            continue
        num_windows += 1
        sent = _find_sent(log, window)
        found: dict[str, dict[str, npt.NDArray[np.int64]]] = {}
        snapshots: dict[str, list[Snapshot]] = {}
        length = window.stop - window.start
        for done, policy in enumerate(SNAPSHOT_POLICIES):
            progress("attacking", done, len(names))
            snapshots[policy] = [
                solve_snapshot(window.cells[:, i], height, k, policy, threads)
                for i in range(length)
            ]
            found[policy] = attack_snapshots(snapshots[policy], sent, threads)
        for done, (name, bundle) in enumerate(bundlers.items()):
            progress("attacking", len(SNAPSHOT_POLICIES) + done, len(names))
            found[name] = attack_bundles(window.cells, bundle(window), sent, threads)
        for (name, attacker), findings in gathered.items():
            findings.append(summarize(name, attacker, found[name][attacker], sent, k))
        if breach is None:
            breach = _find_breach(snapshots[BULK_DP], sent, found, next(iter(bundlers)), window, k)
    if not num_windows:
        raise NotEnoughUsersError(
            f"no window has k = {k} users whose location is known throughout; expected at least "
            f"one; lower --k, or pass --missing hold or a smaller --length"
        )
    progress("attacking", len(names), len(names))
    return Attack([_merge(findings) for findings in gathered.values()], breach)


def _find_sent(log: RequestLog, window: Window) -> Sent:
    length = window.stop - window.start
    if log.requests.kinds.num_columns:
        return build_sent(window.request_user, window.request_instant, length)
    user, instant = np.divmod(np.arange(len(window.user) * length), length)
    return build_sent(user.astype(np.int32), instant.astype(np.int32), length)


def _merge(findings: Sequence[Finding]) -> Finding:
    """Add up the windows of a policy and attacker."""
    return Finding(
        policy=findings[0].policy,
        attacker=findings[0].attacker,
        requests=sum(f.requests for f in findings),
        breaches=sum(f.breaches for f in findings),
        smallest_candidate_set=min(
            (f.smallest_candidate_set for f in findings if f.requests), default=0
        ),
        identified=sum(f.identified for f in findings),
    )


def _find_breach(
    snapshots: Sequence[Snapshot],
    sent: Sent,
    found: dict[str, dict[str, npt.NDArray[np.int64]]],
    bundle_algorithm: str,
    window: Window,
    k: int,
) -> Breach | None:
    """Choose the breach with the fewest candidates and, among those, the fewest requests."""
    candidates = found[BULK_DP][TP_AWARE][sent.first[:-1]]
    if not len(candidates) or candidates.min() >= k:
        return None
    order = np.lexsort((np.diff(sent.first), candidates))
    pairs = slice(sent.first[order[0]], sent.first[order[0] + 1])
    sender = sent.user[pairs][0]
    left = np.ones(len(snapshots[0].cloak), np.bool_)
    steps = []
    for instant in sent.instant[pairs]:
        cloak = snapshots[instant].cloak
        fitting = cloak == cloak[sender]
        left &= fitting
        steps.append(BreachStep(window.start + int(instant), int(fitting.sum()), int(left.sum())))
    return Breach(
        policy=BULK_DP,
        attacker=TP_AWARE,
        steps=steps,
        bundle_algorithm=bundle_algorithm,
        bundle_candidates=int(found[bundle_algorithm][TP_AWARE][pairs].min()),
    )
