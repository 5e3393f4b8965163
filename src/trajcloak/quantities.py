"""Numbers, lengths, moments and what was read of a log, as people read them.

Spaces within a quantity are such that no line is broken there.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_BREAK = "\u00a0"  # a space at which no line is broken
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_WRITTEN_OUT = 1e6  # numbers below are written with all digits before the point
_KILOMETRE = 1000.0


def show_number(value: float) -> str:
    """Write a number with about three significant digits.

    Examples
    --------
    >>> show_number(12.345), show_number(7450.4), show_number(50)
    ('12.3', '7,450', '50')
    >>> show_number(3.33e13).split()
    ['3.33', '×', '10¹³']
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if abs(value) >= _WRITTEN_OUT or exponent < -3:
        power = f"10{str(exponent).translate(_SUPERSCRIPTS)}"
        return f"{value / 10.0**exponent:.3g}{NO_BREAK}×{NO_BREAK}{power}"
    return f"{value:,.0f}" if exponent >= 2 or value == int(value) else f"{value:.3g}"


def show_share(share: float) -> str:
    """Write a share; only 0 and 1 are written as 0% and 100%.

    Examples
    --------
    >>> show_share(0.25), show_share(1)
    ('25.0%', '100.0%')
    >>> show_share(0.00001).split(), show_share(0.99999).split()
    (['<', '0.1%'], ['>', '99.9%'])
    """
    if 0 < share < 0.001:
        return f"<{NO_BREAK}0.1%"
    return f">{NO_BREAK}99.9%" if 0.999 < share < 1 else f"{share:.1%}"


def show_count(number: int, one: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> show_count(1, "user"), show_count(2000, "user")
    ('1 user', '2,000 users')
    """
    return f"{number:,} {one if number == 1 else one + 's'}"


def show_k(k: int) -> str:
    """Write what k is.

    Examples
    --------
    >>> show_k(50).split()
    ['k', '=', '50']
    """
    return f"k{NO_BREAK}={NO_BREAK}{k:,}"


@dataclass(frozen=True)
class Unit:
    """The unit of a release's coordinates."""

    in_metres: bool  # False for planar coordinates, whose unit is not known

    @property
    def plane(self) -> str:
        """Words for planar coordinates without a coordinate system."""
        return "planar, in metres" if self.in_metres else "planar, unit not known"

    def scale(self, greatest: float) -> tuple[float, str]:
        """Choose a unit for lengths up to some greatest one; returns its length and short name.

        Examples
        --------
        >>> Unit(in_metres=True).scale(2500.0), Unit(in_metres=False).scale(2500.0)
        ((1000.0, 'km'), (1.0, 'units'))
        """
        if not self.in_metres:
            return 1.0, "units"
        return (_KILOMETRE, "km") if greatest >= _KILOMETRE else (1.0, "m")

    def length(self, value: float) -> str:
        """Write a length."""
        one, name = self.scale(value)
        return f"{show_number(value / one)}{NO_BREAK}{name}"

    def area(self, value: float) -> str:
        """Write an area."""
        one, name = self.scale(math.sqrt(value))
        return f"{show_number(value / one**2)}{NO_BREAK}{name}²"

    def square(self, area: float) -> str:
        """Write an area as a square of the same size.

        Examples
        --------
        >>> Unit(in_metres=True).square(9e6).split()
        ['3', 'km', '×', '3', 'km']
        """
        side = self.length(math.sqrt(area))
        return f"{side}{NO_BREAK}×{NO_BREAK}{side}"


def show_moment(moment: int | str) -> str:
    """Shorten a timestamp of a manifest or of an instant; the number of an instant stays.

    Examples
    --------
    >>> show_moment("2024-05-06T08:00:00.000000Z"), show_moment("2024-05-06T08:00:07.500000")
    ('2024-05-06 08:00 UTC', '2024-05-06 08:00:07.500000')
    """
    text = re.sub(r"(:00)?\.0+(?!\d)", "", str(moment))
    return text.replace("T", " ").replace("Z", " UTC")


def show_duration(duration: int | str) -> str:
    """Write a duration of a manifest for people: ``12h`` instead of ``43200s``.

    Examples
    --------
    >>> [show_duration(text) for text in ("60s", "300s", "43200s", "1500ms", 7)]
    ['60s', '5min', '12h', '1500ms', '7']
    """
    seconds = re.fullmatch(r"([0-9]+)s", str(duration))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and int(seconds[1]) > 60 and int(seconds[1]) % length == 0:
            return f"{int(seconds[1]) // length}{unit}"
    return str(duration)


def list_ingest_facts(ingest: Mapping[str, Any], plane: str = "planar") -> list[tuple[str, str]]:
    """List what a manifest says was read of a log; zeros are left out.

    ``plane`` are words for coordinates without a system.
    """
    located, interval = ingest["user_instants"], ingest["interval"]
    everywhere = sum(located.values()) or 1
    between = "none"
    if interval is not None:
        median, low, high = (show_duration(interval[name]) for name in ("median", "p5", "p95"))
        between = f"{median} (90% from {low} to {high})"
    dropped = {f"rows dropped ({reason})": n for reason, n in sorted(ingest["dropped"].items())}
    repeated = "rows that repeat a time"
    times = {f"{what} local times": ingest[what] for what in ("ambiguous", "nonexistent")}

    def list_counts(counts: Mapping[str, int]) -> list[tuple[str, str]]:
        return [(name, f"{number:,}") for name, number in counts.items() if number]

    return [
        ("rows read", f"{ingest['rows']:,}"),
        *list_counts({**dropped, repeated: ingest["repeated"]}),
        ("users", f"{ingest['users']:,}"),
        ("first instant", show_moment(ingest["start"])),
        ("last instant ends", show_moment(ingest["end"])),
        ("instants of the log", f"{ingest['instants']:,}"),
        ("time between reports", between),
        *list_counts({"longer than the gap to interpolate": ingest["long_gaps"]}),
        *(
            (f"locations {how}", f"{number / everywhere:.1%} ({number:,})")
            for how, number in located.items()
            if number or how == "missing"
        ),
        ("coordinates", ingest["crs"] or plane),
        ("time zone", ingest["zone"] or "none"),
        *list_counts(times),
    ]
