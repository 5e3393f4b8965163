"""Run the installed command on a terminal."""

import os
import subprocess
from contextlib import suppress

from cli.conftest import SCRIPT


def run_on_terminal(*args, **environment: str) -> tuple[str, str]:
    """Run a command with a terminal for standard error; returns both outputs."""
    return _run(subprocess.PIPE, args, environment)


def show_on_terminal(*args, **environment: str) -> str:
    """Run a command with one terminal for all outputs; returns what it shows."""
    _, shown = _run(None, args, environment)
    return shown


def _run(printed, args, environment) -> tuple[str, str]:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [SCRIPT, *map(str, args)],
        stdout=printed or theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"} | environment,
    ) as process:
        os.close(theirs)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, suppress(OSError):
            # The end of a terminal is an error.
            while part := terminal.read(1 << 16):
                shown += part
        text, _ = process.communicate()
    assert process.returncode == 0
    return (text or b"").decode(), shown.decode()
