"""From the files of a log to a release in bounded memory, and on after an interruption.

::

    store_log      files      -> rows on disk, by user       read
    prepare        StoredLog  -> grid, windows, region       (adds up over parts of users)
    check_requests StoredLog  -> Treatment                   trajcloak.pipeline
    plan_chapters  windows    -> runs of windows             chapters
    store_chapters windows    -> rows on disk, by chapter    chapters
    _work_off      a chapter  -> bundles on disk, by window  trajcloak.pipeline
    _publish       bundles    -> release and policy file

Each step is one of the run in memory, or reads in parts what that one reads at once, so that
the published bytes are the same.
"""

import hashlib
import shutil
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trajcloak.algorithms import Algorithm
from trajcloak.bounded.chapters import (
    check_cut,
    plan_chapters,
    store_chapters,
)
from trajcloak.bounded.memory import GROUP_BYTES, RESERVED, parse_memory, release_memory
from trajcloak.bounded.places import StoredPlaces
from trajcloak.bounded.read import store_log
from trajcloak.bounded.spill import Columns
from trajcloak.bounded.stored_bundles import (
    StoredBundles,
    cut_stored_policy,
    has_window,
    load_window,
    save_window,
)
from trajcloak.bounded.stored_log import StoredLog, build_stretch, load_log, save_log
from trajcloak.bounded.work import WorkFolder
from trajcloak.errors import OptionError
from trajcloak.hygiene import RareColumn, Treatment
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import LogPath
from trajcloak.log.files import count_rows, list_files
from trajcloak.manifest import LeftOut
from trajcloak.options import LogColumns, Options
from trajcloak.output import PRIVATE, move
from trajcloak.pipeline import (
    Prepared,
    build_release,
    bundle_window,
    check_requests,
    choose_algorithm,
    lay_out,
)
from trajcloak.progress import Progress, silent
from trajcloak.published import Manifest, read_manifest
from trajcloak.release import check_outputs, check_outside_log, new_policy_file
from trajcloak.space import Places, choose_region, find_projection
from trajcloak.trajectories import stream_windows
from trajcloak.trajectories.windows import build_empty_window, check_conflicts
from trajcloak.version import __version__

RELEASE, POLICY, READY = "release", "policy.parquet", "ready.json"
HASHED_BYTES = 1 << 16
"""At either end of each file of the log, for telling whether it is the same."""


@dataclass(frozen=True)
class FilesResult:
    """What :func:`anonymize_files` wrote.

    Attributes
    ----------
    manifest : dict
        The content of ``manifest.json``.
    rare : tuple of RareColumn
        Attributes with values that few users sent. Private: it is no part of the release.
    """

    manifest: Manifest
    rare: tuple[RareColumn, ...]


def anonymize_files(
    source: LogPath,
    release: str | Path,
    k: int,
    *,
    memory: str | int,
    columns: LogColumns | None = None,
    policy: str | Path | None = None,
    resume: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> FilesResult:
    """Turn a log that may be larger than memory into a release, window by window.

    The files are those that :func:`trajcloak.anonymize` would have made.

    Parameters
    ----------
    source
        Files, as for :func:`trajcloak.read_log`.
    release
        Folder to be created.
    k : int
        Least number of users in a bundle; at least 2.
    memory
        Most memory that the process may take, such as ``4GiB``. Users, distinct requests and
        each window must fit into it; the log need not.
    columns
        Which columns to read.
    policy
        Where to write the private policy file, if at all.
    resume
        Continue a run that was interrupted, with the same log and options. If there is
        nothing to continue, start anew.
    threads
        Default: all cores. Never changes the result.
    progress
        Called as work is done.
    **options
        The other fields of :class:`trajcloak.Options`.

    Raises
    ------
    TrajcloakError
        As :func:`trajcloak.anonymize`; also if memory is too little for a window, or if an
        interrupted run is in the way.

    Examples
    --------
    >>> import trajcloak as tc
    >>> result = tc.anonymize_files("log.parquet", "bounded", 10, memory="2GiB")
    >>> result.manifest["k"]
    10
    """
    asked = Options(k=k, **options)
    columns = columns or LogColumns()
    limit = parse_memory(memory)
    threads = choose_threads(threads)
    release, policy = Path(release), None if policy is None else Path(policy)
    files = list_files(source)
    if not all(isinstance(file, Path) for file in files):
        raise OptionError(
            "the log is a table in memory; expected files; use trajcloak.anonymize for it"
        )
    work = WorkFolder(release)
    outputs = [release] if policy is None else [release, policy]
    check_outside_log(_list_folders(source), outputs)
    check_outputs(release, None if policy is None or _is_moved(work) else policy)
    check_cut(asked, count_rows(files), limit - RESERVED)
    run = _Run(work, files, columns, asked, limit - RESERVED, threads, progress)
    fingerprint = _identify(files, columns, asked, policy)
    with work.open(fingerprint, resume=resume):
        return run.publish(release, policy)


@dataclass(frozen=True)
class _Run:
    """The steps of a run, each of which takes over what an interrupted one has done."""

    work: WorkFolder
    files: Sequence[Path]
    columns: LogColumns
    asked: Options
    memory: int
    threads: int
    progress: Progress

    def publish(self, release: Path, policy: Path | None) -> FilesResult:
        """Do what is left to do, and move the results to their places."""
        ready = self.work.load(READY)
        if ready is None:
            ready = self._make(with_policy=policy is not None)
            self.work.save(READY, ready)
        manifest = read_manifest(self.work.path / RELEASE)
        self._move(release, policy)
        return FilesResult(manifest, tuple(RareColumn(**column) for column in ready))

    def _make(self, *, with_policy: bool) -> list[dict[str, Any]]:
        """Make release and policy file inside the work folder; says which values are rare."""
        log = self._read()
        prepared, placed = self._prepare(log)
        algorithm = choose_algorithm(prepared)
        chapters = plan_chapters(prepared, self.memory - log.num_bytes)
        rare, treatment = check_requests(prepared)
        if not prepared.grid.on_grid:
            check_conflicts(log)
        spill = store_chapters(self.work, prepared, placed, chapters, self.progress)
        for number, chapter in enumerate(chapters):
            missing = [w for w in chapter.windows if not has_window(self.work, w)]
            if missing:
                self._work_off(prepared, algorithm, treatment, missing, spill.load(number))
                release_memory()
        busy = {window for chapter in chapters for window in chapter.windows}
        self._write(prepared, busy, treatment, with_policy)
        return [asdict(column) for column in rare]

    def _read(self) -> StoredLog:
        log = load_log(self.work)
        if log is None:
            log = store_log(
                self.work, self.files, self.columns, self.memory, self.threads, self.progress
            )
            save_log(self.work, log)
        return log

    def _prepare(self, log: StoredLog) -> tuple[Prepared, StoredPlaces]:
        grid, max_gap, ranges, region = lay_out(log, self.asked)
        projection = find_projection(log, is_fitted=region is None)
        placed = StoredPlaces(self.work, log, projection, self.threads)
        region = choose_region(placed.parts, projection, self.asked.height, region, self.threads)
        places = Places(log.x, log.y, region, projection.crs)
        prepared = Prepared(log, self.asked, grid, max_gap, places, ranges, self.threads)
        return prepared, placed

    def _work_off(
        self,
        prepared: Prepared,
        algorithm: Algorithm,
        treatment: Treatment | None,
        windows: Sequence[int],
        rows: Columns,
    ) -> None:
        """Bundle the users of some windows, and keep the bundles."""
        log = build_stretch(prepared.log, rows)
        # The places of a chapter are planar already.
        places = replace(prepared.places, x=log.x, y=log.y)
        stream = stream_windows(
            log,
            places,
            prepared.grid,
            length=self.asked.length,
            max_gap=prepared.max_gap,
            missing=self.asked.missing,
            threads=self.threads,
            progress=self.progress,
            ranges=prepared.ranges[windows],
            whole=prepared.log,
        )
        for number in windows:
            window = replace(next(stream), number=number)
            bundles = bundle_window(prepared, algorithm, window, treatment, self.progress)
            save_window(self.work, window, bundles)
            # There is room for one window only.
            del window, bundles

    def _write(
        self,
        prepared: Prepared,
        busy: Container[int],
        treatment: Treatment | None,
        with_policy: bool,
    ) -> None:
        """Write release and policy file inside the work folder.

        Windows that are not ``busy`` are empty.
        """
        num_users = prepared.log.num_users
        left_out = LeftOut(num_users)
        published = []
        for number, (start, stop) in enumerate(prepared.ranges.tolist()):
            if number not in busy:
                left_out.add(build_empty_window(number, start, stop, num_users), None)
                continue
            window, bundles = load_window(self.work, number)
            left_out.add(window, bundles)
            if bundles is not None:
                published.append(number)
        stored = StoredBundles(self.work, published)
        made = build_release(prepared, stored, treatment, left_out, StoredBundles.renumbered)
        shutil.rmtree(self.work.path / RELEASE, ignore_errors=True)
        threads = max(1, min(self.threads, self.memory // GROUP_BYTES))
        made.write(self.work.path / RELEASE, threads=threads, progress=self.progress)
        if with_policy:
            (self.work.path / POLICY).unlink(missing_ok=True)
            groups = cut_stored_policy(prepared.log.users, stored)
            with new_policy_file(groups, self.work.path / POLICY):
                pass

    def _move(self, release: Path, policy: Path | None) -> None:
        """Give release and policy file their names; nobody takes a policy alone for a release."""
        if policy is not None and (self.work.path / POLICY).exists():
            move(self.work.path / POLICY, policy, PRIVATE)
        move(self.work.path / RELEASE, release)


def _is_moved(work: WorkFolder) -> bool:
    """Whether an interrupted run has put its policy file into place already."""
    return (work.path / READY).exists() and not (work.path / POLICY).exists()


def _list_folders(source: LogPath) -> list[Path]:
    if isinstance(source, str | Path):
        return [Path(source)]
    return [Path(part) for part in source]


def _identify(
    files: Sequence[Path], columns: LogColumns, asked: Options, policy: Path | None
) -> dict[str, Any]:
    """Say what must be the same for a run to be continued."""
    return {
        "log files": [_identify_file(file) for file in files],
        "log options": asdict(columns),
        "options": asdict(asked),
        "software": __version__,
        "policy file": None if policy is None else str(policy.absolute()),
    }


def _identify_file(file: Path) -> list[Any]:
    found = file.stat()
    ends = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        ends.update(stream.read(HASHED_BYTES))
        stream.seek(max(0, found.st_size - HASHED_BYTES))
        ends.update(stream.read(HASHED_BYTES))
    return [str(file.absolute()), found.st_size, found.st_mtime_ns, ends.hexdigest()]
