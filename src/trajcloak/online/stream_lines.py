"""Lines of a stream: JSON, one location report or request each.

A line that cannot be used is counted and skipped. What is said about it names nobody: lines are
written by others, and may hold anything.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

OWN = "trajcloak"

TOO_LONG = "too long"
LONGEST_LINE = 1 << 16
LONGEST_VALUE = 1000
"""Bytes of a line, and characters of an id or a request value."""

USUAL_TEXT = 64
"""Characters of the values of a request; those that hold more count as several."""

GEOGRAPHIC, PLANAR = ("lon", "lat"), ("x", "y")
"""Where a report says where its user is."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOPIC = re.compile(r"owntracks/([^/]+/[^/]+)")


class ReportLine(NamedTuple):
    """A location report; the time is in microseconds since 1970, UTC.

    ``x`` and ``y`` are planar coordinates, or longitude and latitude if it is ``geographic``.
    """

    user: str
    time: int
    x: float
    y: float
    geographic: bool = False


class RequestLine(NamedTuple):
    """A request: the values of its attributes, in the order in which they were asked for."""

    user: str
    time: int
    values: tuple[str | None, ...]

    @property
    def weight(self) -> int:
        """For how many usual requests this one counts where there may be too many.

        Who sent it must not matter: the id does not count.
        """
        return 1 + sum(len(value or "") for value in self.values) // USUAL_TEXT


StreamLine = ReportLine | RequestLine


class LineError(ValueError):
    """Why a line cannot be used, in words that quote nothing of it."""


class LineParser:
    """Parses lines one by one, and counts those that are skipped.

    Of a request, only the attributes that ``requests`` names are read. Reports have ``lon`` and
    ``lat``, or ``x`` and ``y``. ``skipped`` counts by reason lines that were not used, and reports
    of which a request was not; it is private.

    Examples
    --------
    >>> parser = LineParser(["category"])
    >>> parser.parse(b'{"kind": "report", "user_id": "a", "time": 3.5, "x": 1, "y": 2}')
    ReportLine(user='a', time=3500000, x=1.0, y=2.0, geographic=False)
    >>> parser.parse(b'{"kind": "request", "user_id": "a", "time": "?", "category": "food"}')
    >>> parser.skipped
    Counter({'no usable time': 1})
    """

    def __init__(self, requests: Sequence[str], line_format: str = OWN) -> None:
        self._names = list(requests)
        self._read = self._read_own if line_format == OWN else self._read_owntracks
        self.skipped: Counter[str] = Counter()

    def parse(self, line: bytes) -> StreamLine | None:
        """Parse a line; None if it is to be skipped. An empty line is no line."""
        try:
            return self._read(line) if line.strip() else None
        except LineError as error:
            self.skipped[str(error)] += 1
            return None

    def _read_own(self, line: bytes) -> StreamLine:
        content = _read_object(line)
        if content.get("kind") == "request":
            return self._read_request(content)
        if content.get("kind") != "report":
            raise LineError("neither a report nor a request")
        return self._read_report(content.get("user_id"), content.get("time"), content)

    def _read_owntracks(self, line: bytes) -> StreamLine:
        """Read a line of ``mosquitto_sub -v``: topic, space, JSON of OwnTracks or a request.

        The user is the device that the topic names: ``owntracks/USER/DEVICE``.
        """
        topic, _, text = line.strip().partition(b" ")
        content = _read_object(text)
        if content.get("kind") == "request":
            return self._read_request(content)
        if content.get("_type") != "location":
            raise LineError("neither a location nor a request")
        match = _TOPIC.fullmatch(topic.decode("utf-8", "replace"))
        return self._read_report(match and match[1], content.get("tst"), content)

    def _read_request(self, content: dict[str, Any]) -> RequestLine:
        user, time = _read_user(content.get("user_id")), _read_time(content.get("time"))
        values = tuple(_read_value(content.get(name)) for name in self._names)
        if all(value is None for value in values):
            raise LineError("a request without any attribute that is asked for")
        return RequestLine(user, time, values)

    def _read_report(self, user_id: object, when: object, content: dict[str, Any]) -> ReportLine:
        user, time = _read_user(user_id), _read_time(when)
        geographic = content.get("lon") is not None
        x, y = (_read_number(content.get(name)) for name in (GEOGRAPHIC if geographic else PLANAR))
        if geographic and not (abs(x) <= 180.0 and abs(y) <= 90.0):
            raise LineError("no usable place")
        if any(content.get(name) is not None for name in self._names):
            # The report counts: who is present must not depend on who asks.
            self.skipped["a request in a report"] += 1
        return ReportLine(user, time, x, y, geographic)


def _read_object(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise LineError("no JSON") from None
    if not isinstance(content, dict):
        raise LineError("no JSON object")
    return content


def _read_user(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_VALUE or not _is_text(value):
        raise LineError("no usable user id")
    return value


def _read_time(value: object) -> int:
    """Read seconds since 1970, or ISO 8601 text, which is in UTC unless it says otherwise."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = _EPOCH + timedelta(seconds=value)
        else:
            raise ValueError
    except (ValueError, OverflowError):
        raise LineError("no usable time") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _read_number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # JSON may hold integers that no float can, and Python's reader of it takes NaN.
    if not is_number or not abs(value) <= sys.float_info.max:
        raise LineError("no usable place")
    return float(value)


def _read_value(value: object) -> str | None:
    """Read the value of an attribute as text; numbers and true or false as JSON writes them."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str) or len(value) > LONGEST_VALUE or not _is_text(value):
        raise LineError("no usable attribute")
    return value


def _is_text(value: str) -> bool:
    """Whether a text can be written as UTF-8; JSON may hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut_lines(pieces: Iterable[bytes], skipped: Counter[str]) -> Iterator[list[bytes]]:
    """Cut pieces of text into lines, a list for each piece.

    Lines longer than :data:`LONGEST_LINE` are counted in ``skipped`` and left out, so that memory
    is bounded. A last line without an end is not used: it may be cut off.
    """
    rest, is_long = b"", False
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if is_long and lines:
            lines[0], is_long = b"", False
        usable = [line for line in lines if len(line) <= LONGEST_LINE]
        skipped[TOO_LONG] += len(lines) - len(usable)
        if len(rest) > LONGEST_LINE or is_long:
            skipped[TOO_LONG] += not is_long
            rest, is_long = b"", True
        yield usable
