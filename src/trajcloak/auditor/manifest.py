"""The manifest of a release: its fields and the parameters in it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyproj

from trajcloak.auditor.parameters import (
    REASONS_TO_DROP,
    RULES,
    find_parameter_problems,
    is_integer,
    is_number,
)

FORMAT_VERSION = 1
MAX_HEIGHT = 32
REASONS = ("outside_windows", "missing_location", "window_below_k", "suppressed", "rare_value")
ALGORITHMS = (
    "traj-anon", "refined", "baseline", "fast-clustering", "slow-clustering",
    "hilbert-clustering", "exact",
)  # fmt: skip
SOFTWARE = re.compile(r"trajcloak [0-9]{1,3}(\.[0-9]{1,3}){1,3}((a|b|rc|\.dev|\.post)[0-9]{1,3})?")

Rule = tuple[str, Callable[[Any], bool]]


def _is_count(value: Any) -> bool:
    return is_integer(value) and value >= 0


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or is_number(value)


def _is_crs(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        return bool(pyproj.CRS.from_user_input(value).is_projected)
    except pyproj.exceptions.CRSError:
        return False


def _has_fields(value: Any, rules: dict[str, Rule]) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == rules.keys()
        and all(is_right(value[name]) for name, (_, is_right) in rules.items())
    )


COUNT: Rule = ("a count", _is_count)
TEXT: Rule = ("text", lambda value: isinstance(value, str))
NUMBER: Rule = ("a finite number", is_number)
REASON: dict[str, Rule] = {"user_windows": COUNT, "requests": COUNT}
REGION: dict[str, Rule] = {
    "x_min": NUMBER,
    "y_min": NUMBER,
    "side": ("a positive number", lambda value: is_number(value) and value > 0),
}
WHY: dict[str, Rule] = {
    reason: ("counts", lambda value: _has_fields(value, REASON)) for reason in REASONS
}
WITHHELD: dict[str, Rule] = {
    "users": COUNT,
    "requests": COUNT,
    "why": ("counts by reason", lambda value: _has_fields(value, WHY)),
}
LOCATED: dict[str, Rule] = dict.fromkeys(("reported", "interpolated", "held", "missing"), COUNT)
SCALAR: Rule = ("a plain value", _is_scalar)
QUANTILES: dict[str, Rule] = dict.fromkeys(("p5", "median", "p95"), SCALAR)
DROPPED: dict[str, Rule] = dict.fromkeys(REASONS_TO_DROP, COUNT)
INGEST: dict[str, Rule] = {
    "rows": COUNT,
    "dropped": ("counts by reason", lambda value: _has_fields(value, DROPPED)),
    "repeated": COUNT,
    "requests": COUNT,
    "users": COUNT,
    "start": SCALAR,
    "end": SCALAR,
    "instants": COUNT,
    "interval": (
        "durations, or null",
        lambda value: value is None or _has_fields(value, QUANTILES),
    ),
    "long_gaps": COUNT,
    "user_instants": ("counts", lambda value: _has_fields(value, LOCATED)),
    "crs": SCALAR,
    "zone": SCALAR,
    "ambiguous": COUNT,
    "nonexistent": COUNT,
}
FIELDS: dict[str, Rule] = {
    "format_version": (
        f"{FORMAT_VERSION}",
        lambda value: is_integer(value) and value == FORMAT_VERSION,
    ),
    "software": TEXT,
    "k": ("an integer, at least 2", lambda value: is_integer(value) and value >= 2),
    "algorithm": TEXT,
    "parameters": ("an object", lambda value: isinstance(value, dict)),
    "cloak": ("'quad' or 'mbr'", lambda value: value in ("quad", "mbr")),
    "crs": ("a PROJ string of a projection, or null", _is_crs),
    "region": ("x_min, y_min and a positive side", lambda value: _has_fields(value, REGION)),
    "height": (f"0..{MAX_HEIGHT}", lambda value: _is_count(value) and value <= MAX_HEIGHT),
    "windows": COUNT,
    "instants": COUNT,
    "users": COUNT,
    "bundles": COUNT,
    "smallest_bundle": COUNT,
    "cost": NUMBER,
    "mean_cloak_area": NUMBER,
    "requests": COUNT,
    "withheld": ("users, requests and why", lambda value: _has_fields(value, WITHHELD)),
    "suppressed": COUNT,
    "generalised": COUNT,
    "ingest": ("a report on the log", lambda value: _has_fields(value, INGEST)),
}
"""Every field of a manifest, with what is expected of it."""


@dataclass(frozen=True)
class Manifest:
    """A manifest that has every field, each of the right type.

    ``raw`` is the file itself.
    """

    fields: dict[str, Any]
    raw: bytes

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters."""
        return dict(self.fields["parameters"])


def read_manifest(path: Path) -> tuple[Manifest | None, list[str]]:
    """Read a manifest; returns it if it can be used, and what is wrong with it.

    Unknown fields are counted, not quoted: a name could be a user's.
    """
    try:
        raw = path.read_bytes()
        fields = json.loads(
            raw.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=_no_constants
        )
    except (OSError, ValueError, RecursionError):
        return None, ["manifest.json cannot be read as JSON in UTF-8 with each key once"]
    if not isinstance(fields, dict):
        return None, ["manifest.json holds no JSON object"]
    problems = [
        f"field '{name}' is not {expected}" if name in fields else f"field '{name}' is missing"
        for name, (expected, is_right) in FIELDS.items()
        if name not in fields or not is_right(fields[name])
    ]
    if not problems:
        problems = find_parameter_problems(fields["parameters"])
    if problems:
        return None, problems
    return Manifest(fields, raw), _find_foreign(fields, raw.decode("utf-8"))


def _find_foreign(fields: dict[str, Any], text: str) -> list[str]:
    """Look for what the format does not have, in a manifest that can be used."""
    problems = []
    for what, known, found in (
        ("fields", FIELDS, fields),
        ("parameters", RULES, fields["parameters"]),
    ):
        unknown = len(found.keys() - known.keys())
        if unknown:
            problems.append(f"{unknown} {what} that the format does not have")
    if not SOFTWARE.fullmatch(fields["software"]):
        problems.append("field 'software' is not trajcloak and its version")
    if fields["algorithm"] not in ALGORITHMS:
        problems.append("field 'algorithm' is no algorithm of trajcloak")
    spelled = json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if text != spelled:
        problems.append("keys are not sorted, or not indented by two blanks each on its own line")
    return problems


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of JSON, or raise if a key occurs twice."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
