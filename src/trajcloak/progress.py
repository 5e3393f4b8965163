"""How long-running stages report their progress.

A stage calls ``progress(stage, done, total)``; the listener decides what to show.
The library is silent by default; the command line draws bars.
"""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage's name, the work done so far and the whole work.

``total`` is 0 if it is not known in advance. ``done == total`` ends the stage. Text
after a comma in the name is not part of the name, but a detail to show.
"""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore all progress; the default listener."""
