"""Numbers, lengths and moments as people read them.

Spaces within a quantity are such that no line is broken there.
"""

import math
from dataclasses import dataclass

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_WRITTEN_OUT = 1e6
"""Numbers below are written with all digits before the point."""

NO_BREAK = "\u00a0"
"""A space at which no line is broken."""

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
    """The unit of a release's coordinates.

    Attributes
    ----------
    in_metres : bool
        False for planar coordinates, whose unit is not known.
    """

    in_metres: bool

    @property
    def plane(self) -> str:
        """Words for planar coordinates without a coordinate system."""
        return "planar, in metres" if self.in_metres else "planar, unit not known"

    def scale(self, greatest: float) -> tuple[float, str]:
        """Choose the unit of an axis for lengths up to some greatest one.

        Returns the length of that unit, and its short name.

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


def show_moment(moment: str) -> str:
    """Shorten a timestamp of a manifest or of an instant.

    Examples
    --------
    >>> show_moment("2024-05-06T08:00:00.000000Z"), show_moment("2024-05-06T08:00:07.500000")
    ('2024-05-06 08:00 UTC', '2024-05-06 08:00:07.5')
    """
    text, zone = (moment[:-1], " UTC") if moment.endswith("Z") else (moment, "")
    date, _, time = text.partition("T")
    if "." in time:
        time = time.rstrip("0").rstrip(".")
    return f"{date} {time.removesuffix(':00') if time.count(':') == 2 else time}{zone}"
