"""How long-running stages tell what they are doing.

A stage calls ``progress(stage, done, total)``; who listens decides what to
show. The library is silent by default; the command line draws bars.
"""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage's name, the work done so far and the whole work.

``total`` is 0 where the whole is not known in advance. ``done == total`` ends
the stage. What follows a comma in the name is not part of it, but news to show.
"""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore all progress; the default listener."""
