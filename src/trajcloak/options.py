"""Which columns of a log mean what: shared by all that read a log."""

from dataclasses import dataclass

from trajcloak.errors import OptionError

RESERVED_NAMES = frozenset({"window", "bundle_id", "instant"})
"""Columns that ``requests.parquet`` has of its own."""


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log.

    Parameters
    ----------
    user, time
        Who, and when.
    lon, lat
        Degrees on WGS 84. Give both or neither.
    x, y
        Planar coordinates. Give both or neither. Where neither pair is given,
        the log's own columns decide: ``lon``/``lat`` or ``x``/``y``.
    requests
        The request attributes. Only columns named here are ever published.

    Examples
    --------
    >>> LogColumns(user="device", requests=("category",)).user
    'device'
    """

    user: str = "user_id"
    time: str = "time"
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None
    requests: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for first, second in (("lon", "lat"), ("x", "y")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise OptionError(
                    f"only one of the columns '{first}' and '{second}' is named; "
                    f"expected both or neither; pass --{first} and --{second} together"
                )
        if self.lon is not None and self.x is not None:
            raise OptionError(
                "both lon/lat and x/y columns are named; expected one pair; "
                "pass --lon and --lat, or --x and --y"
            )
        for name in self.requests:
            if name in RESERVED_NAMES:
                raise OptionError(
                    f"request column '{name}' has the name of a column of the release; "
                    f"expected another name; rename it in the log"
                )
            if name in (self.user, self.time, self.lon, self.lat, self.x, self.y):
                raise OptionError(
                    f"request column '{name}' also holds the user, time or place; "
                    f"publishing it would give senders away; leave it out"
                )
        if len(set(self.requests)) != len(self.requests):
            raise OptionError("a request column is named twice; expected each once")

    def place(self, present: list[str]) -> tuple[str, str, bool]:
        """Choose the two coordinate columns among those present.

        Returns the two names and whether they are longitude and latitude.
        """
        if self.lon is not None and self.lat is not None:
            return self.lon, self.lat, True
        if self.x is not None and self.y is not None:
            return self.x, self.y, False
        geographic = "lon" in present and "lat" in present
        planar = "x" in present and "y" in present
        if geographic and planar:
            raise OptionError(
                "the log has both lon/lat and x/y columns; expected to be told which to use; "
                "pass --lon and --lat, or --x and --y"
            )
        if geographic:
            return "lon", "lat", True
        return "x", "y", False
