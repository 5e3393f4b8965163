"""The private folder in which a run keeps what it has done, until its release is complete."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trajcloak.errors import InputError, NotEnoughUsersError, OptionError, OutputError

OWNER_ONLY = 0o700
FINGERPRINT = "fingerprint.json"


class WorkFolder:
    """A folder beside the release: hidden, and readable by its owner only.

    Each step leaves its result under a name that appears when it is complete, so that a run
    which was ended at any moment can be continued.

    Parameters
    ----------
    release
        The folder of the release.
    """

    def __init__(self, release: Path) -> None:
        self._release = release
        self.path = release.with_name(f".{release.name}.trajcloak-work")

    @contextmanager
    def open(self, fingerprint: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
        """Make the folder, or take it over from an interrupted run.

        It is removed at the end, and where the log or the options are to blame. After any
        other error, and if the run is ended from outside, it is kept.

        Parameters
        ----------
        fingerprint
            What must be the same for a run to be continued.
        resume
            Whether to continue; if there is nothing to continue, the run starts anew.
        """
        self._take(resume)
        lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._hold(lock)
            self._check_same(fingerprint)
            try:
                yield
            except (InputError, OptionError, NotEnoughUsersError):
                self._remove()
                raise
            except OSError as error:
                raise self._explain(error) from error
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"what was done so far is kept in {self.path}: continue with --resume"
                ) from None
            self._remove()
        finally:
            os.close(lock)

    def _remove(self) -> None:
        # Without it, what is left of the folder is not continued.
        (self.path / FINGERPRINT).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def _explain(self, error: OSError) -> OSError:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        if isinstance(cause, OutputError):
            return cause
        return OutputError(
            f"{self._release}: cannot be written ({cause.strerror or type(cause).__name__}); what "
            f"was done so far is kept in {self.path}; check the disk's free space and permissions, "
            f"and continue with --resume"
        )

    def _take(self, resume: bool) -> None:
        try:
            self.path.mkdir(OWNER_ONLY)
            return
        except FileExistsError:
            pass
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot be made ({error.strerror}); expected a folder to work in "
                f"beside the release; check the disk's free space and permissions"
            ) from None
        if not resume:
            raise OutputError(
                f"{self.path}: an interrupted run left its work there; expected no such folder; "
                f"continue the run with --resume, or remove the folder"
            )
        found = self.path.lstat()
        is_ours = found.st_uid == os.getuid() and found.st_mode & 0o7777 == OWNER_ONLY
        if not (is_ours and self.path.is_dir() and not self.path.is_symlink()):
            raise OutputError(
                f"{self.path}: is not a folder that only you can read; expected the work of a run "
                f"of yours; remove it, or choose another name for the release"
            )

    def _hold(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(
                f"{self._release}: another run is writing it; expected to be the only one; wait "
                f"for it to end, or choose another name"
            ) from None

    def _check_same(self, fingerprint: Mapping[str, Any]) -> None:
        plain = json.loads(json.dumps(fingerprint))
        known = self.load(FINGERPRINT)
        if known is None:
            for path in self.path.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.save(FINGERPRINT, plain)
            return
        differing = [name for name in plain if plain[name] != known.get(name)]
        if differing:
            raise OutputError(
                f"{self.path}: the interrupted run had other {', '.join(differing)}; expected the "
                f"same as before, or its work is of no use; pass the same, or remove the folder"
            )

    def load(self, name: str) -> Any | None:
        """Read a small result; None if it is not there."""
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def save(self, name: str, content: Any) -> None:
        """Write a small result, which appears when it is complete."""
        with self.new_file(name) as path:
            path.write_text(json.dumps(content), encoding="utf-8")

    @contextmanager
    def new_file(self, name: str, *, is_synced: bool = True) -> Iterator[Path]:
        """Yield a file to fill, which takes its name at the end.

        ``is_synced``: it is then safe even if the machine goes down. That takes long, so that
        what comes in great numbers does without it, and is checked before it is used again.
        """
        staging = self.path / f"{name}.unfinished"
        yield staging
        if is_synced:
            with staging.open("rb+") as file:
                os.fsync(file.fileno())
        staging.replace(self.path / name)

    def new_folder(self, name: str) -> Path:
        """Make an empty folder, in place of one that was left unfinished."""
        path = self.path / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path
