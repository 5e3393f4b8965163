"""Kills a stream at random moments; run as a program, in a process that has all kernels loaded.

``python stream_kills.py FOLDER KILLS SEED`` prints what it found as JSON.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from engines.kills import Steps
from online.stream_runs import Walk, audit_stream, run_stream
from trajcloak.query import open_published

INSTANTS = 14
"""Instants that a run gets; the next one gets those after them."""


class StreamKiller:
    """Runs a stream in other processes, ended at random moments, and looks at what they leave."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._folder = folder / "stream"
        self._steps = Steps()
        run_stream(folder / "warm", self._list_lines(0))
        audit_stream(folder / "warm")
        self._steps.done = 0
        run_stream(folder / "counted", self._list_lines(0))
        self._num_steps = self._steps.done
        self._usual = 0.1
        self._printed: set[int] = set()
        self._num_windows = 0
        self.kills = 0

    def _list_lines(self, number: int) -> list[dict]:
        """List the lines for a run: the instants after those of the run before."""
        walk = Walk(users=20, instants=INSTANTS, seed=number, absence=0.02)
        return walk.list_lines(first=number * INSTANTS)

    def attempt(self, number: int) -> None:
        """Run in another process, and end it before a random step, or after a random time."""
        at_step = 0
        if self._random.random() < 0.5:
            at_step = int(self._random.integers(1, self._num_steps + 1))
        printed = self._folder.with_name(f"printed-{number}")
        child = os.fork()
        if child == 0:
            self._steps.done, self._steps.last = 0, at_step
            try:
                run_stream(self._folder, self._list_lines(number), printed=printed)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
            os._exit(0)
        if not at_step:
            time.sleep(self._random.uniform(0, self._usual))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or status == 0, "a run failed"
        self.kills += os.WIFSIGNALED(status)
        if not at_step:
            # So long that some runs are done in time, and most are not, on any machine.
            self._usual *= 1.05 if os.WIFSIGNALED(status) else 0.9
        self._look_at_lines(printed)

    def _look_at_lines(self, printed: Path) -> None:
        """Raise if an instant was published by a run before."""
        text = printed.read_bytes() if printed.exists() else b""
        # The last line may be cut off.
        instants = {json.loads(line)["instant"] for line in text.split(b"\n")[:-1]}
        assert not instants & self._printed, "an instant was published twice"
        self._printed |= instants

    def check(self) -> None:
        """Raise unless the release has whole epochs, and the audit passes when a run has begun."""
        release = self._folder / "release"
        if release.exists():
            self._check_epochs(release)
        run_stream(self._folder, [])
        if release.exists():
            self._check_epochs(release)
            report = audit_stream(self._folder)
            assert report.passed, [check for check in report.checks if not check.passed]

    def _check_epochs(self, release: Path) -> None:
        opened = open_published(release)
        assert len(opened.windows) >= self._num_windows, "an epoch is gone"
        self._num_windows = len(opened.windows)
        shown = {window.start + int(i) for window in opened.windows for i in range(3)}
        assert shown <= self._printed, "an epoch is released that was not published whole"

    def go(self, kills: int) -> None:
        """Kill runs, one after another."""
        number = 0
        while self.kills < kills:
            self.attempt(number)
            self.check()
            number += 1

    @property
    def result(self) -> dict[str, int]:
        """What was seen."""
        abandoned = len(list((self._folder / "state" / "started").iterdir()))
        return {"kills": self.kills, "epochs": self._num_windows, "abandoned": abandoned}


def main(folder: str, kills: str, seed: str) -> dict[str, int]:
    """Kill a stream so often."""
    killer = StreamKiller(Path(folder), int(seed))
    killer.go(int(kills))
    return killer.result


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
