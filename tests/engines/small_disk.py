"""Runs that run out of disk; run as a program that may mount, which ``unshare`` makes it.

``python small_disk.py FOLDER SIZE...`` prints what it found as JSON.
"""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from engines.kills import look, write_log
from small_logs import list_tree
from trajcloak.cli import main


def call(*args: object) -> tuple[int, str]:
    """Run a command in this process; returns its exit code and what it says of errors."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main([str(arg) for arg in args])
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def fill(folder: Path, kilobytes: int) -> dict[str, Any]:
    """Run on a disk of so many kilobytes, and on when there is more room."""
    run = write_log(folder / "log")
    before = look(folder / "log")
    disk, tiny, large = (folder / name for name in ("disk", "tiny", "large"))
    for place in (disk, tiny, large):
        place.mkdir()
    mount(disk, f"size={kilobytes}k")
    mount(tiny, "size=12k")
    asked = ["--k", run.k, "--length", 4, "--cloak", "quad", "--request", "what", "--json"]

    def anonymize(out: Path, *more: object) -> tuple[int, str]:
        files = ["-o", out / "release", "--policy", out / "policy.parquet"]
        return call("anonymize", folder / "log", *files, *asked, *more)

    assert anonymize(large)[0] == 0
    in_memory, _ = anonymize(tiny)
    code, message = anonymize(disk, "--memory", "1GiB")
    left = sorted(path.name for path in disk.iterdir())
    again, _ = anonymize(disk, "--memory", "1GiB")
    mount(disk, "remount,size=64m")
    resumed, _ = anonymize(disk, "--memory", "1GiB", "--resume")
    return {
        "in_memory": in_memory,
        "left_by_memory": list(list_tree(tiny)),
        "code": code,
        "message": message,
        "left": left,
        "again": again,
        "resumed": resumed,
        "same_bytes": list_tree(disk) == list_tree(large),
        "same_log": look(folder / "log") == before,
    }


if __name__ == "__main__":
    found = {}
    for size in sys.argv[2:]:
        place = Path(sys.argv[1]) / size
        place.mkdir()
        found[size] = fill(place, int(size))
    print(json.dumps(found))
