"""The plan in bounded memory: shards in files of a private folder, one call after another.

A stage whose files are there is not done again, which is all that resuming a run is.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from trajcloak.engines.engine import Function, Handle, Job, Sizes, WriteFiles
from trajcloak.engines.shard_files import (
    Scratch,
    is_whole,
    read_pieces,
    remove_folder,
    write_chunks,
)
from trajcloak.engines.stored import Call, StoredEngine
from trajcloak.errors import InputError, NotEnoughUsersError, OptionError, OutputError
from trajcloak.kernels.threads import choose_threads
from trajcloak.output import PRIVATE, explaining, lock_file, move
from trajcloak.progress import Progress, silent

OWNER_ONLY = 0o700
FINGERPRINT, LOCK = "fingerprint.json", "lock"
RELEASE, PRIVATE_FILE = "release", "private-{}"
MEMORY = "memory"
ANSWERS, DROPPED = "answers", ".dropped"

UNITS = ("", "k", "m", "g", "t")
MIB = 1 << 20

RESERVED = 512 * MIB
"""Program, libraries, kernels and their compiler, and what reading and writing need."""

LEAST = 640 * MIB
ROW_BYTES = 256
"""Of a row while the rows of a shard are worked on."""

CELL_BYTES = 96
"""Of a user at an instant while a run of windows is worked on."""

MAX_SHARDS = 1 << 12


class FolderEngine(StoredEngine):
    """Runs calls in this process, one after another, each with all threads.

    ``folder`` is private, opened by :func:`open_work_folder`; a :class:`Scratch` is removed with
    the engine. The process may take ``memory`` bytes, for which sizes are chosen.
    """

    synced = True

    def __init__(
        self,
        folder: Path | Scratch,
        memory: int,
        threads: int | None = None,
        progress: Progress = silent,
    ) -> None:
        super().__init__(folder, progress)
        self.memory = memory - RESERVED
        self.threads = choose_threads(threads)

    def choose_sizes(self, num_rows: int) -> Sizes:
        """Choose shards, and runs of windows, that fit into the memory."""
        if self._sizes is not None:
            return self._sizes
        rows = max(self.memory // ROW_BYTES, -(-num_rows // MAX_SHARDS))
        cells = self.memory // CELL_BYTES
        # In blocks, refined would bundle otherwise than in memory: no window is cut into them.
        return Sizes(rows, cells, bundles=sys.maxsize, window_cells=cells)

    def ask(self, function: Function, jobs: Sequence[Job], label: str | None = None) -> list[Any]:
        """Keep the answers, too: what they were asked of may be gone when a run is resumed."""
        stage = self._new_stage(function.__name__)
        if not is_whole(stage / ANSWERS):
            calls = [Call(function, job) for job in jobs]
            write_chunks([[self.run_calls(calls, stage, label)]], stage / ANSWERS, synced=True)
        return list(next(read_pieces(stage / ANSWERS, 0)))

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """Keep the values as answers: the stage that made them may be gone later."""
        return list(self.ask(list, [(handles,)])[0])

    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        """Run the calls whose files are not there yet."""
        values: list[Any] = []
        if _name_marker(stage).exists():
            return values
        for done, call in enumerate(calls):
            if label is not None:
                self.progress(label, done, len(calls))
            if call.path is not None and is_whole(call.path):
                continue
            values.append(call.run())
            # Memory that Arrow has freed would be counted as the process's own.
            pa.default_memory_pool().release_unused()
        if label is not None:
            self.progress(label, len(calls), len(calls))
        return values

    def drop(self, handles: Sequence[Handle]) -> None:
        """Free the values of a stage, and note that it was done."""
        for stage in {handle.stage for handle in handles}:
            marker = _name_marker(stage)
            if not marker.exists():
                marker.touch()
                remove_folder(stage)

    def publish(self, write: WriteFiles, release: Path, private: Sequence[Path]) -> None:
        """Write all inside the folder, and then move it: nothing half done stands elsewhere."""
        made = self.folder / RELEASE
        held = [self.folder / PRIVATE_FILE.format(i) for i in range(len(private))]
        if not made.exists():
            for file in held:
                file.unlink(missing_ok=True)
            write(made, held)
        # Nobody takes a policy file alone for a release, so private files are moved first.
        for file, path in zip(held, private, strict=True):
            if file.exists():
                move(file, path, PRIVATE)
        move(made, release)


def _name_marker(stage: Path) -> Path:
    """Name the file that says that a stage was done and its values were dropped."""
    return stage.with_name(f"{stage.name}{DROPPED}")


def name_work_folder(release: Path) -> Path:
    """Name the private folder of a run: hidden, beside its release."""
    return release.parent / f".{release.name}.trajcloak-work"


def list_unmoved(folder: Path, private: Sequence[Path]) -> list[Path]:
    """List the private files that an interrupted run has not put into place already."""
    if not (folder / RELEASE).exists():
        return list(private)
    return [path for i, path in enumerate(private) if (folder / PRIVATE_FILE.format(i)).exists()]


@contextmanager
def open_work_folder(
    folder: Path, fingerprint: Mapping[str, Any], memory: int, *, resume: bool
) -> Iterator[int]:
    """Make the private folder of a run, or take it over from an interrupted one.

    It is removed at the end, and where the log or the options are to blame. After any other
    error, and if the run is ended from outside, it is kept.

    Yields the memory that sizes are chosen for: that of the interrupted run, whose shards are
    taken over. ``fingerprint`` is what must be the same for a run to be continued. ``resume``:
    whether to continue; if there is nothing to continue, the run starts anew.
    """
    with ExitStack() as stack:
        with explaining(
            f"{folder}: cannot be written",
            "expected a folder to work in beside the release; check the disk's free space and "
            "permissions",
        ):
            _take(folder, resume)
            _lock(folder, stack.enter_context((folder / LOCK).open("a")))
            known = _check_same(folder, {**fingerprint, MEMORY: memory})
        if memory < known:
            raise OutputError(
                f"{folder}: the interrupted run had {format_memory(known)} of memory; expected as "
                f"much, or more; pass a larger --memory, or remove the folder"
            )
        try:
            yield known
        except (InputError, OptionError, NotEnoughUsersError):
            _remove(folder)
            raise
        except OSError as error:
            raise _explain(folder, error) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"what was done so far is kept in {folder}: continue with --resume"
            ) from None
        _remove(folder)


def _remove(folder: Path) -> None:
    # Without its fingerprint, what is left of a folder is not continued.
    (folder / FINGERPRINT).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _explain(folder: Path, error: OSError) -> OSError:
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(cause, OutputError):
        return cause
    return OutputError(
        f"{folder}: cannot be written ({cause.strerror or type(cause).__name__}); what was done "
        f"so far is kept there; check the disk's free space and permissions, and continue with "
        f"--resume"
    )


def _take(folder: Path, resume: bool) -> None:
    try:
        folder.mkdir(OWNER_ONLY)
        return
    except FileExistsError:
        pass
    if not resume:
        raise OutputError(
            f"{folder}: an interrupted run left its work there; expected no such folder; continue "
            f"the run with --resume, or remove the folder"
        )
    found = folder.lstat()
    is_ours = not hasattr(os, "getuid") or (
        found.st_uid == os.getuid() and found.st_mode & 0o7777 == OWNER_ONLY
    )
    if not (is_ours and folder.is_dir() and not folder.is_symlink()):
        raise OutputError(
            f"{folder}: is not a folder that only you can read; expected the work of a run of "
            f"yours; remove it, or choose another name for the release"
        )


def _lock(folder: Path, lock: TextIO) -> None:
    try:
        lock_file(lock)
    except OSError:
        raise OutputError(
            f"{folder}: another run is working there; expected to be the only one; wait for it "
            f"to end, or choose another name for the release"
        ) from None


def _check_same(folder: Path, fingerprint: Mapping[str, Any]) -> int:
    """Raise unless a run was begun with the same fingerprint; returns the memory that it had."""
    plain = json.loads(json.dumps(fingerprint))
    file = folder / FINGERPRINT
    if not file.exists():
        for path in folder.iterdir():
            if path.name != LOCK:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        staging = folder / f"{FINGERPRINT}.unfinished"
        with staging.open("w", encoding="utf-8") as text:
            json.dump(plain, text)
            text.flush()
            os.fsync(text.fileno())
        staging.replace(file)
        return int(plain[MEMORY])
    known = json.loads(file.read_text(encoding="utf-8"))
    differing = [name for name in plain if name != MEMORY and plain[name] != known.get(name)]
    if differing:
        raise OutputError(
            f"{folder}: the interrupted run had other {', '.join(differing)}; expected the same as "
            f"before, or its work is of no use; pass the same, or remove the folder"
        )
    return int(known[MEMORY])


def parse_memory(text: str | int) -> int:
    """Read a limit such as ``4GiB`` or ``900MB``; a number is bytes.

    Examples
    --------
    >>> parse_memory("4GiB")
    4294967296
    """
    match = re.fullmatch(r"([0-9]{1,15})\s*(?:([kmgt])(i?))?b?", str(text).strip().lower())
    if match is None:
        raise OptionError(
            f"memory is '{text}'; expected a size such as 4GiB or 900MB; pass another --memory"
        )
    unit = pow(1024 if match[3] else 1000, UNITS.index(match[2] or ""))
    limit = int(match[1]) * int(unit)
    if limit < LEAST:
        raise OptionError(
            f"memory is {text}; expected at least {format_memory(LEAST)}, which the program and "
            f"its libraries need; pass another --memory"
        )
    return limit


def format_memory(size: float) -> str:
    """Write a size in whole MiB, or in GiB with a decimal."""
    return f"{size / MIB:,.0f} MiB" if size < 1 << 30 else f"{size / (1 << 30):,.1f} GiB"
