"""Kills runs at random moments; run as a program, in a process that has all kernels loaded.

``python kills.py FOLDER MODE KILLS SEED`` prints what it found as JSON.
"""

import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.options import LogColumns

sys.path.insert(0, str(Path(__file__).parent.parent))

from engines.drawn_runs import Run
from small_logs import list_tree
from trajcloak.engines.engine import Sizes
from trajcloak.engines.folder import FolderEngine

NUM_USERS, NUM_INSTANTS = 60, 40
SIZES = Sizes(600, 2 * 4 * NUM_USERS)
"""Four shards, and runs of two windows."""


def write_log(folder: Path) -> Run:
    """Write a log of ten windows."""
    rng = np.random.default_rng(1)
    size = NUM_USERS * NUM_INSTANTS
    table = pa.table(
        {
            "user_id": np.tile(np.arange(NUM_USERS), NUM_INSTANTS),
            "time": np.repeat(np.arange(NUM_INSTANTS), NUM_USERS),
            "x": rng.random(size) * 100,
            "y": rng.random(size) * 100,
            "what": rng.choice(["a", "b", "c"], size),
        }
    )
    folder.mkdir()
    for number in range(4):
        part = table.slice(number * size // 4, size // 4)
        pq.write_table(part, folder / f"part-{number}.parquet")
    columns = LogColumns(requests=("what",))
    return Run(folder, columns, 5, {"length": 4, "cloak": "quad"})


class Steps:
    """Counts what a run does to files, and ends the process before the last of some steps."""

    def __init__(self) -> None:
        self.done = 0
        self.last: int | None = None
        sys.addaudithook(self._listen)

    def _listen(self, event: str, _: object) -> None:
        if event == "open" or event.startswith(("os.", "shutil.")):
            self.done += 1
            if self.done == self.last:
                os.kill(os.getpid(), signal.SIGKILL)


def look(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Everything in a folder, with the times of the last changes."""
    content = list_tree(folder)
    return {name: (data, (folder / name).stat().st_mtime_ns) for name, data in content.items()}


class Killer:
    """Runs in other processes, ended at random moments, and looks at what they leave."""

    def __init__(self, folder: Path, mode: str, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._log = folder / "log"
        self._run = write_log(self._log)
        self._before = look(self._log)
        self._mode = mode
        self._steps = Steps()
        self._expected = self._make(folder / "expected")
        self._steps.done = 0
        self._make(folder / "counted")
        self._num_steps = self._steps.done
        self._usual = 0.1
        self.kills = 0
        self.finished = 0

    def _make(self, out: Path) -> dict[str, bytes]:
        """Run undisturbed, in this process."""
        out.mkdir()
        self._start(out)
        return list_tree(out)

    def _start(self, out: Path) -> None:
        release, policy = out / "release", out / "policy.parquet"
        if self._mode == "memory":
            self._run.in_memory(release, policy)
        else:
            self._run.in_bounded_memory(release, policy, resume=True)

    def attempt(self, out: Path) -> bool:
        """Run in another process, and end it at a random moment; whether it was done before.

        Half of the moments are those before a random step, so that short ones are hit too.
        """
        at_step = int(self._rng.integers(1, self._num_steps + 1)) if self._rng.random() < 0.5 else 0
        child = os.fork()
        if child == 0:
            self._steps.done, self._steps.last = 0, at_step
            try:
                self._start(out)
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(1)
            os._exit(0)
        if at_step:
            _, status = os.waitpid(child, 0)
            self.kills += os.WIFSIGNALED(status)
            assert os.WIFSIGNALED(status) or status == 0
            return status == 0
        deadline = time.monotonic() + self._rng.uniform(0, self._usual)
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                assert status == 0, "a run that nobody disturbed failed"
                self._usual *= 0.9
                return True
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        self.kills += os.WIFSIGNALED(status)
        # So long that some runs are done in time, and most are not, on any machine.
        self._usual *= 1.05
        return status == 0

    def check(self, out: Path, *, done: bool) -> None:
        """Raise unless what stands in a folder is complete, or cannot be taken for a release."""
        assert look(self._log) == self._before, "the log was touched"
        found = list_tree(out)
        if done:
            assert found == self._expected, "another release, or something left beside it"
            return
        shown = {name: data for name, data in found.items() if not name.startswith(".")}
        if any(name.startswith("release") for name in shown):
            release = {n: data for n, data in self._expected.items() if n.startswith("release")}
            assert release.items() <= shown.items(), "half a release"
        assert shown.items() <= self._expected.items(), "another release"
        for hidden in out.glob(".*"):
            if self._mode == "bounded":
                assert hidden.name == ".release.trajcloak-work"
                assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
            else:
                assert hidden.name.endswith(".unfinished")

    def go(self, folder: Path, kills: int) -> None:
        """Kill runs; one in bounded memory is continued, and mostly killed again."""
        number = 0
        while self.kills < kills:
            out = folder / f"out-{number}"
            out.mkdir()
            number += 1
            done = False
            while not done:
                done = self.attempt(out)
                self.check(out, done=done)
                if self._mode == "memory":
                    break
                if (out / "release").exists() and not done:
                    # Killed after the last step, while it was tidying up.
                    break
            self.finished += done


def main(folder: str, mode: str, kills: str, seed: str) -> dict[str, Any]:
    """Kill some runs."""
    path = Path(folder)
    FolderEngine.choose_sizes = lambda *_: SIZES  # type: ignore[method-assign]
    killer = Killer(path, mode, int(seed))
    killer.go(path, int(kills))
    return {"kills": killer.kills, "finished": killer.finished}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
