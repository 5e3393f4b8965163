"""Bad input, case by case.

The cases also serve invariant 6: their logs hold ids and coordinates that must not
show in a message.
"""

from bad_input import columns, files, outputs, places, rows, times, types
from bad_input.case import CASES, Attempt, Case, Secrets, good_lines, write_csv

__all__ = [
    "CASES",
    "Attempt",
    "Case",
    "Secrets",
    "columns",
    "files",
    "good_lines",
    "outputs",
    "places",
    "rows",
    "times",
    "types",
    "write_csv",
]
