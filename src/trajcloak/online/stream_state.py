"""The private folder of a stream: what it must know after a crash.

::

    stream.json         the settings, and where and when the stream began
    started/00000012/   an epoch of which something may have been published
    finished/00000011/  an epoch that is part of the release: what was used, and what was shown
    policy.parquet      who is in which bundle, for the release as it is

An epoch is in ``started`` before anything of it is published, and stays there if the run ends
in between: the rest of it is withheld. So no instant is ever published under two groupings.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from trajcloak.errors import InputError, OptionError, OutputError
from trajcloak.output import PRIVATE, check_new, explaining, lock_file
from trajcloak.release.reading import check_outside_releases
from trajcloak.space import Region

SETTINGS_FILE = "stream.json"
LOCK_FILE = "lock"
STARTED, FINISHED = "started", "finished"
PRIVATE_FOLDER = 0o700


@dataclass(frozen=True)
class StreamStart:
    """Where and when a stream began; all of it is public."""

    origin: int  # When instant 0 begins, in microseconds since 1970.
    region: Region
    crs: str | None  # Coordinate system of the plane; None if it is not known.
    geographic: bool  # Whether reports have longitude and latitude.


class StreamState:
    """What a stream keeps on disk; made by :func:`open_state`.

    ``start`` is None until it is decided.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], start: StreamStart | None) -> None:
        self.path = path
        self._settings = settings
        self.start = start

    @property
    def next_epoch(self) -> int:
        """The first epoch of which nothing can have been published."""
        return 1 + max(self._list(STARTED) + self._list(FINISHED), default=-1)

    @property
    def withheld_epoch(self) -> int | None:
        """The epoch in which the last run ended, if it ended within one."""
        return next((n for n in self._list(STARTED) if n + 1 == self.next_epoch), None)

    def decide(self, start: StreamStart) -> None:
        """Store where and when the stream begins."""
        content = {"settings": self._settings, "start": asdict(start)}
        with replace_private(self.path / SETTINGS_FILE) as stream:
            stream.write(json.dumps(content).encode())
        sync(self.path)
        self.start = start

    def begin_epoch(self, epoch: int) -> Path:
        """Create the folder of an epoch; it is on disk when this returns."""
        folder = self._name_folder(STARTED, epoch)
        folder.mkdir(PRIVATE_FOLDER)
        sync(folder.parent)
        return folder

    def finish_epoch(self, epoch: int) -> Path:
        """Make an epoch, whose files are on disk, part of the release."""
        started, finished = (self._name_folder(where, epoch) for where in (STARTED, FINISHED))
        sync(started)
        started.rename(finished)
        sync(finished.parent)
        return finished

    def list_finished(self) -> list[Path]:
        """List the folders of finished epochs, in order."""
        return [self._name_folder(FINISHED, epoch) for epoch in sorted(self._list(FINISHED))]

    def _name_folder(self, where: str, epoch: int) -> Path:
        return self.path / where / f"{epoch:08}"

    def _list(self, where: str) -> list[int]:
        names = [folder.name for folder in (self.path / where).iterdir()]
        return [int(name) for name in names if name.isdecimal()]


@contextmanager
def open_state(path: Path, settings: Mapping[str, Any]) -> Iterator[StreamState]:
    """Open the state of a stream, or create it; one run at a time.

    Raises an error if the stream was begun with other settings, or stands inside a release. What is
    made here is removed at the end if where and when the stream begins is not decided until then.
    """
    check_outside_releases(path, "the state of the stream", "state")
    settings = json.loads(json.dumps(settings, default=str))
    is_new = not os.path.lexists(path)
    if is_new:
        check_new(path)
    remedy = (
        "what is published stays; check the disk's free space and permissions, and start the "
        "stream again"
    )
    with explaining(f"{path}: the stream cannot be written", remedy):
        path.mkdir(PRIVATE_FOLDER, exist_ok=True)
        for name in (STARTED, FINISHED):
            (path / name).mkdir(PRIVATE_FOLDER, exist_ok=True)
        with (path / LOCK_FILE).open("w") as file:
            try:
                lock_file(file)
            except OSError:
                raise OutputError(
                    f"{path}: another run uses this state; expected a state for each stream; stop "
                    f"the other run, or pass another --state"
                ) from None
            try:
                yield StreamState(path, settings, _read_start(path, settings))
            finally:
                if is_new and not (path / SETTINGS_FILE).exists():
                    _remove_empty(path)


def _remove_empty(path: Path) -> None:
    """Remove a state in which nothing is decided; what others put there stays."""
    with suppress(OSError):
        for name in (STARTED, FINISHED):
            (path / name).rmdir()
        (path / LOCK_FILE).unlink()
        path.rmdir()


def _read_start(path: Path, settings: Mapping[str, Any]) -> StreamStart | None:
    """Read where and when a stream began; raises if it has other settings."""
    file = path / SETTINGS_FILE
    if not file.exists():
        if any(any((path / where).iterdir()) for where in (STARTED, FINISHED)):
            raise InputError(
                f"{path}: {SETTINGS_FILE} is missing; expected the state of a stream; restore it, "
                f"or pass another --state"
            )
        return None
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        begun, start = dict(stored["settings"]), dict(stored["start"])
        found = StreamStart(**{**start, "region": Region(**start["region"])})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file}: is damaged; expected where and when a stream began; restore it, or pass "
            f"another --state and --output"
        ) from error
    if begun != settings:
        names = sorted(n for n in {*begun, *settings} if settings.get(n) != begun.get(n))
        raise OptionError(
            f"{path}: the stream was begun with another {', '.join(names)}; expected the same "
            f"settings until it ends; pass them again, or another --state and --output"
        )
    return found


@contextmanager
def replace_private(file: Path) -> Iterator[BinaryIO]:
    """Yield a private file to fill, which takes the place of the one before when it is on disk."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    # A file, or a link, that somebody else puts there would be theirs to read.
    descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(descriptor)
    unfinished.replace(file)


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
