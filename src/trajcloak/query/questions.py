"""Regions, routes and times, as a consumer writes them, in text or in Python."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from trajcloak.errors import OptionError
from trajcloak.options import ZONE_NAME, check_setting, is_zone

Point = tuple[float, float]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rectangle(NamedTuple):
    """A closed rectangle, in units of the release's CRS."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float


class RouteStep(NamedTuple):
    """To be inside a region at an instant."""

    region: Rectangle
    instant: int


def parse_region(text: str) -> Rectangle:
    """Parse ``X_MIN,Y_MIN,X_MAX,Y_MAX``.

    Examples
    --------
    >>> parse_region("0,0,2.5,1")
    Rectangle(x_min=0.0, y_min=0.0, x_max=2.5, y_max=1.0)
    """
    return check_region(_parse_numbers(text, 4, "region", "X_MIN,Y_MIN,X_MAX,Y_MAX"))


def parse_points(text: str) -> list[Point]:
    """Parse points of a line: ``X,Y X,Y ...``."""
    points = [_parse_numbers(part, 2, "route", "X,Y X,Y ...") for part in text.split()]
    return [(x, y) for x, y in points]


def _parse_numbers(text: str, count: int, name: str, form: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise OptionError(
            f"{name} is '{text}'; expected numbers, {form}; pass another --{name}"
        ) from None
    return numbers


def check_region(region: Sequence[float]) -> Rectangle:
    """Raise unless a region is a rectangle."""
    x_min, y_min, x_max, y_max = map(float, region)
    if not (-math.inf < x_min < x_max < math.inf and -math.inf < y_min < y_max < math.inf):
        raise OptionError(
            f"region is '{','.join(f'{edge:g}' for edge in region)}', which is no rectangle; "
            f"expected X_MIN below X_MAX and Y_MIN below Y_MAX; pass another --region"
        )
    return Rectangle(x_min, y_min, x_max, y_max)


def build_route(points: Sequence[Point], width: float, instants: Sequence[int]) -> list[RouteStep]:
    """Turn a line into steps for somebody who follows it at an even pace.

    The line is cut into as many pieces of the same length as there are instants. The region of an
    instant is the box around its piece, wider by ``width / 2`` on every side.

    Examples
    --------
    >>> for step in build_route([(0, 0), (8, 0)], 2, [5, 6]):
    ...     print(step.instant, *step.region)
    5 -1.0 -1.0 5.0 1.0
    6 3.0 -1.0 9.0 1.0
    """
    if len(points) < 2:
        raise OptionError(
            f"the route has {len(points)} points; expected two or more; pass another --route"
        )
    if not 0 < width < math.inf:
        raise OptionError(f"width is {width:g}; expected a number above 0; pass another --width")
    reached = [0.0, *accumulate(math.dist(before, after) for before, after in pairwise(points))]
    if not 0 < reached[-1] < math.inf:
        raise OptionError(
            "all points of the route are the same; expected a line; pass another --route"
        )
    cuts = [reached[-1] * i / len(instants) for i in range(len(instants) + 1)]
    steps, margin = [], width / 2
    for instant, (start, stop) in zip(instants, pairwise(cuts), strict=True):
        # The corners of this piece, by their distances along the line.
        at = [start, *(distance for distance in reached if start < distance < stop), stop]
        xs, ys = (np.interp(at, reached, axis).tolist() for axis in zip(*points, strict=True))
        box = Rectangle(min(xs) - margin, min(ys) - margin, max(xs) + margin, max(ys) + margin)
        steps.append(RouteStep(box, instant))
    return steps


@dataclass(frozen=True)
class PublishedTimes:
    """The published instants."""

    ranges: list[tuple[int, int]]  # half-open ranges, one for each window
    moments: tuple[int, int] | None  # origin and step in microseconds since 1970, if there are any
    zone: str | None  # "UTC" or None
    clock: str | None = None  # zone of times without one, and of moments written; default: UTC

    def follow_clock(self, zone: str) -> "PublishedTimes":
        """Read and write times as the clock of a zone shows them."""
        check_setting("tz", zone, ZONE_NAME, is_zone)
        if self.zone is None:
            raise OptionError(
                f"tz is '{zone}', and times of the release have no zone; expected times as the "
                f"release has them; leave out --tz"
            )
        return replace(self, clock=zone)

    def find_instant(self, time: int | str) -> int:
        """Find the published instant that a time, its number or a timestamp, falls into."""
        instant = self._parse_time(time)
        if not any(start <= instant < stop for start, stop in self.ranges):
            raise OptionError(
                f"time '{time}' is not published; expected {self._describe()}; pass another time"
            )
        return instant

    def between(self, first: int | str | None, last: int | str | None) -> list[int]:
        """List the published instants from one to another, both included."""
        low = self.ranges[0][0] if first is None else self.find_instant(first)
        high = self.ranges[-1][1] - 1 if last is None else self.find_instant(last)
        if high < low:
            raise OptionError(
                f"the time from '{first}' to '{last}' is empty; expected the earlier one first; "
                f"exchange --from and --to"
            )
        return [
            instant
            for start, stop in self.ranges
            for instant in range(max(start, low), min(stop, high + 1))
        ]

    def describe_instant(self, instant: int) -> str | None:
        """Write the moment of an instant; None where there are no timestamps."""
        if self.moments is None:
            return None
        origin, every = self.moments
        moment = np.datetime64(origin + instant * every, "us")
        if self.clock is not None:
            local = moment.item().replace(tzinfo=UTC).astimezone(ZoneInfo(self.clock))
            return str(local.isoformat(timespec="microseconds"))
        return str(moment) + ("Z" if self.zone else "")

    def _parse_time(self, time: int | str) -> int:
        with suppress(ValueError):
            return int(time)
        expected = "the number of an instant"
        if self.moments is None:
            raise OptionError(f"time is '{time}'; expected {expected}; pass another time")
        try:
            moment = datetime.fromisoformat(str(time))
        except ValueError:
            raise OptionError(
                f"time is '{time}'; expected {expected}, or a timestamp such as "
                f"{self.describe_instant(self.ranges[0][0])}; pass another time"
            ) from None
        if moment.tzinfo is not None and self.zone is None:
            raise OptionError(
                f"time is '{time}', which has a zone, and the release has none; expected a time "
                f"without a zone; leave it out"
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(self.clock) if self.clock else UTC)
        origin, every = self.moments
        return ((moment - EPOCH) // timedelta(microseconds=1) - origin) // every

    def _describe(self) -> str:
        """Say which instants are published."""
        first, last = self.ranges[0][0], self.ranges[-1][1] - 1
        if self.moments is None:
            return f"an instant from {first} to {last}"
        return (
            f"an instant from {first} to {last}, or a timestamp from "
            f"{self.describe_instant(first)} until {self.describe_instant(last + 1)}"
        )
