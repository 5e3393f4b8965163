"""The public parameters in a manifest: which there are, and what each may be."""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyproj

REASONS_TO_DROP = (
    "clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport"
)  # fmt: skip


def is_integer(value: Any) -> bool:
    """Whether a value of JSON is an integer that every machine can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    return math.isfinite(value) if isinstance(value, float) else is_integer(value)


def find_parameter_problems(parameters: dict[str, Any]) -> list[str]:
    """Tell which parameters are missing, or of the wrong type."""
    problems = []
    for name, is_right in RULES.items():
        if name not in parameters:
            if name not in OPTIONAL:
                problems.append(f"parameter '{name}' is missing")
        elif not is_right(parameters[name]):
            problems.append(f"parameter '{name}' is not as documented")
    return problems


def _or_null(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_right(value)


def _one_of(*known: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in known


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_at_least_one(value: Any) -> bool:
    return is_integer(value) and value >= 1


def _is_time(value: Any) -> bool:
    """Whether a value may be a moment or a duration; the log tells which it must be."""
    return isinstance(value, str) or is_integer(value)


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value < 1


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_zone(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), value)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _is_system(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(pyproj.CRS.from_user_input(value))
    except pyproj.exceptions.CRSError:
        return False


def _is_rectangle(value: Any) -> bool:
    try:
        edges = list(map(float, value.split(",")))
    except (ValueError, AttributeError):
        return False
    return (
        len(edges) == 4
        and all(map(math.isfinite, edges))
        and edges[0] <= edges[2]
        and edges[1] <= edges[3]
        and value == ",".join(map(repr, edges))
    )


def _is_list_of_reasons(value: Any) -> bool:
    """Whether a value lists what is dropped; a rectangle to clip to is said elsewhere."""
    if not isinstance(value, str):
        return False
    reasons = value.split(",")
    return reasons == sorted(set(reasons)) and set(reasons) <= {*REASONS_TO_DROP} - {"clip"}


def _is_list_of_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


RULES: dict[str, Callable[[Any], bool]] = {
    "origin": _is_time,
    "every": _is_time,
    "max_gap": _is_time,
    "length": _or_null(_is_at_least_one),
    "missing": _one_of("withhold", "hold"),
    "tz": _or_null(_is_zone),
    "log_crs": _or_null(_is_system),
    "clip": _or_null(_is_rectangle),
    "max_speed": _or_null(_is_positive),
    "drop": _or_null(_is_list_of_reasons),
    "align": _one_of("none", "day"),
    "windows": _or_null(lambda value: isinstance(value, str)),
    "requests": _is_list_of_names,
    "allow": lambda value: _is_list_of_names(value) and value == sorted(value),
    "rare": _one_of("keep", "drop", "other"),
    "rare_below": _is_at_least_one,
    "suppress_above": _or_null(_is_positive),
    "max_suppressed": _or_null(_is_share),
    "tree": _one_of("usb", "usb-instant", "us", "u"),
    "effort": _one_of("normal", "low", "high"),
    "seed": _is_seed,
    "blocks": _is_at_least_one,
}
"""Every parameter, and whether a value can be one."""

OPTIONAL = {"blocks"}
"""Parameters that are there only where they mean something."""
