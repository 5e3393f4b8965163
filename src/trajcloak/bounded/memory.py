"""How much memory a run may use, and how much its steps need."""

import re

import pyarrow as pa

from trajcloak.errors import OptionError
from trajcloak.options import HOLD, Options

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY_UNITS = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}
MIB = 1 << 20

GROUP_BYTES = 48 * MIB
"""Of a thread that writes row groups."""

RESERVED = 512 * MIB
"""Program, libraries, kernels and their compiler, and what reading and writing need."""

LEAST = 640 * MIB
ROW_BYTES = 128
"""Of a row in memory while the rows of some users, or of some windows, are worked on."""

CELL_BYTES = 16
"""Of a user at an instant: the cells of all users, and those of the users who take part."""

GAP_BYTES = 16
"""Of a user at an instant of a window, and around it, while gaps are filled."""

USER_BYTES = 240
"""Of a user, whatever the window."""

SOLVE_BYTES = {"refined": 26, "traj-anon": 8}
OTHER_SOLVE_BYTES = 64
"""Of a user at an instant while an algorithm works; measured, and rounded up."""

CLOAK_BYTES = 64
"""Of a bundle at an instant: its cloak, several times."""


def parse_memory(text: str | int) -> int:
    """Read a limit such as ``4GiB`` or ``900MB``; a number is bytes.

    Examples
    --------
    >>> parse_memory("4GiB")
    4294967296
    """
    match = re.fullmatch(r"([0-9]{1,15})\s*(|[kmgt]i?)b?", str(text).strip().lower())
    if match is None:
        raise OptionError(
            f"memory is '{text}'; expected a size such as 4GiB or 900MB; pass another --memory"
        )
    limit = int(match[1]) * (UNITS | BINARY_UNITS)[match[2]]
    if limit < LEAST:
        raise OptionError(
            f"memory is {text}; expected at least {format_memory(LEAST)}, which the program and "
            f"its libraries need; pass another --memory"
        )
    return limit


def format_memory(size: float) -> str:
    """Write a size in whole MiB, or in GiB with a decimal."""
    return f"{size / MIB:,.0f} MiB" if size < 1 << 30 else f"{size / (1 << 30):,.1f} GiB"


def estimate_window(asked: Options, num_users: int, length: int, margin: int, gaps: bool) -> int:
    """Estimate what a window needs besides the rows of the log.

    Parameters
    ----------
    asked
    num_users
    length
        Instants of the window.
    margin
        Instants on either side in which reports can matter.
    gaps
        Whether there may be gaps to fill.
    """
    solve = SOLVE_BYTES.get(asked.algorithm, OTHER_SOLVE_BYTES) + CLOAK_BYTES / asked.k
    fill = GAP_BYTES * (length + 2 * margin) if gaps or asked.missing == HOLD else 0
    return int(num_users * (USER_BYTES + CELL_BYTES * length + max(solve * length, fill)))


def release_memory() -> None:
    """Give memory that Arrow has freed back to the system, so that it is not counted twice."""
    pa.default_memory_pool().release_unused()
