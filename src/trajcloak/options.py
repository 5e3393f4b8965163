"""What a caller can ask for: which columns mean what, and how to anonymize."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from trajcloak.errors import OptionError

RESERVED_NAMES = {"window", "bundle_id", "instant"}  # the columns of ``requests.parquet`` itself
ALGORITHMS = (
    "traj-anon",
    "refined",
    "baseline",
    "fast-clustering",
    "slow-clustering",
    "hilbert-clustering",
    "exact",
)
CUSTOM = "custom:"
CUSTOM_NAME = re.compile(f"{CUSTOM}[a-z0-9][a-z0-9-]{{0,40}}")
"""Names of algorithms of others, which only callers in Python can pass."""

AUTO = "auto"  # choose the algorithm by the kind of cloak; see ``DEFAULT_ALGORITHMS``
EFFORTS = ("normal", "low", "high")
TREES = ("usb", "usb-instant", "us", "u")
QUAD = "quad"
MBR = "mbr"
CLOAKS = (MBR, QUAD)
WITHHOLD = "withhold"
HOLD = "hold"
MISSING = (WITHHOLD, HOLD)
KEEP = "keep"
DROP = "drop"
OTHER = "other"
RARE = (DROP, OTHER, KEEP)
PER_WINDOW = "window"
PER_INSTANT = "instant"
PARTS_PER = (PER_WINDOW, PER_INSTANT)
DAY = "day"
ALIGNMENTS = ("none", DAY)
EMPTY = "empty"
OUT_OF_RANGE = "out-of-range"
NULL_ISLAND = "null-island"
SWAPPED = "swapped"
CONFLICT = "conflict"
TELEPORT = "teleport"
DROPPABLE = (EMPTY, OUT_OF_RANGE, NULL_ISLAND, SWAPPED, CONFLICT, TELEPORT)
TP_AWARE, REPORT_AWARE = "tp-aware", "report-aware"
"""The strongest attackers that a release of two inputs, and of one log, is safe from."""

TIME_UNITS = {"s": 10**6, "ms": 10**3, "us": 1}  # in microseconds
ZONE_NAME = "the name of a time zone, such as Europe/Berlin or UTC"
WGS84 = "OGC:CRS84"
MOVEMENT_FORMATS = ("brinkhoff", "sumo", "geolife", "cabs", "gpx")
MIN_K = 2
MIN_PART = 2
MAX_NUMBER = 2**31 - 1
MAX_SEED = 2**63 - 1
MAX_HEIGHT = 24
MIN_CELL_ULPS = 4  # a cell is so many floating-point numbers wide or more, so that its edges differ
MAX_COORDINATE = 1e100
DEFAULT_ALGORITHMS = {MBR: "refined", QUAD: "traj-anon"}
"""By kind of cloak: the algorithm of lowest cost, and the paper's own."""


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log.

    Columns that are not named are recognised by their usual names, such as ``user_id`` or
    ``uid``, if there is no doubt; see ``docs/data-model.md``.

    :func:`trajcloak.anonymize` says what each field means. Either ``lon`` and ``lat`` are named, or
    ``x`` and ``y``, or neither pair. ``clip`` is least x and y, greatest x and y.
    """

    user: str | None = None
    time: str | None = None
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None
    requests: tuple[str, ...] = ()
    is_report: str | None = None
    tz: str | None = None
    crs: str | None = None
    clip: tuple[float, float, float, float] | None = None
    max_speed: float | None = None
    drop: tuple[str, ...] = ()
    delimiter: str | None = None
    time_unit: str | None = None
    time_format: str | None = None

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
        fixed = (self.user, self.time, self.lon, self.lat, self.x, self.y)
        for name in self.requests:
            if name in RESERVED_NAMES:
                raise OptionError(
                    f"request column '{name}' has the name of a column of the release; "
                    f"expected another name; rename it in the log"
                )
            if name in fixed:
                raise holds_fixed(name)
        if self.is_report is not None and self.is_report in (*fixed, *self.requests):
            raise marks_and_holds(self.is_report)
        if len(set(self.requests)) != len(self.requests):
            raise OptionError("a request column is named twice; expected each once; leave one out")
        check_given("tz", self.tz, ZONE_NAME, is_zone)
        if self.time_unit is not None:
            check_choice("time_unit", self.time_unit, TIME_UNITS)
        if self.time_unit is not None and self.time_format is not None:
            raise OptionError(
                "both a unit and a format of times are given; expected one of them; pass "
                "--time-unit for numbers, or --time-format for text"
            )
        for reason in self.drop:
            check_choice("drop", reason, DROPPABLE)
        check_given("delimiter", self.delimiter, "one character, such as ; or |", _is_delimiter)
        expected = "a rectangle: its least x, least y, greatest x and greatest y"
        check_given("clip", self.clip, expected, _is_rectangle)
        check_given("max_speed", self.max_speed, "a speed above 0", is_above_0)

    @property
    def reading(self) -> dict[str, object]:
        """How the log was read, in the words of the manifest."""
        return {
            "log_crs": self.crs,
            "clip": None if self.clip is None else ",".join(map(repr, map(float, self.clip))),
            "max_speed": None if self.max_speed is None else float(self.max_speed),
            "drop": ",".join(sorted(set(self.drop))) or None,
        }

    def complete(self, made: Mapping[str, Any]) -> "LogColumns":
        """Fill in settings that are not given from a manifest's ``parameters``."""
        clip, drop = made["clip"], made["drop"]
        said: dict[str, Any] = {
            "tz": made["tz"],
            "crs": made["log_crs"],
            "clip": clip and tuple(map(float, clip.split(","))),
            "max_speed": made["max_speed"],
            "drop": tuple(drop.split(",")) if drop else (),
            "requests": tuple(made["requests"]),
        }
        missing = {n: value for n, value in said.items() if getattr(self, n) in (None, ())}
        return replace(self, **missing)

    def without_place(self) -> "LogColumns":
        """The columns of a request log: no coordinates."""
        return replace(self, lon=None, lat=None, x=None, y=None)

    @property
    def place(self) -> tuple[str, str] | None:
        """The two columns of coordinates, if they are named."""
        if self.lon is not None and self.lat is not None:
            return self.lon, self.lat
        if self.x is not None and self.y is not None:
            return self.x, self.y
        return None


@dataclass(frozen=True)
class Options:
    """All settings of a run; all of them are public.

    :func:`trajcloak.anonymize` says what each field means; durations are text, such as ``60s``.
    ``region`` is least x, least y and side of a square. Parts as large as a bundle count as no
    parts.
    """

    k: int
    algorithm: str = AUTO
    cloak: str = MBR
    every: str | None = None
    length: int | None = None
    max_gap: str | None = None
    missing: str = WITHHOLD
    align: str = ALIGNMENTS[0]
    windows: str | None = None
    height: int | None = None
    region: tuple[float, float, float] | None = None
    suppress_above: float | None = None
    max_suppressed: float | None = None
    tree: str = TREES[0]
    effort: str = EFFORTS[0]
    seed: int = 0
    members: int | None = None
    parts: int | None = None
    parts_per: str = PER_WINDOW
    rows_alike: bool = False
    vocabulary: Mapping[str, Sequence[Any]] | None = None
    rare: str = DROP
    rare_below: int = 2
    link_safe: bool = False
    allow: tuple[str, ...] = ()

    @property
    def bundle_size(self) -> int:
        """Least number of users in a bundle."""
        return self.members or self.k

    def __post_init__(self) -> None:
        expected = (
            f"a whole number of at least {MIN_K}: with fewer, a bundle would give its sender away"
        )
        check_setting("k", self.k, expected, lambda k: _is_whole(k) and k >= MIN_K)
        check_choice("cloak", self.cloak, CLOAKS)
        if self.algorithm == AUTO:
            object.__setattr__(self, "algorithm", DEFAULT_ALGORITHMS[self.cloak])
        if not is_custom(self.algorithm):
            check_choice("algorithm", self.algorithm, ALGORITHMS)
        check_choice("missing", self.missing, MISSING)
        check_choice("align", self.align, ALIGNMENTS)
        check_choice("tree", self.tree, TREES)
        check_choice("effort", self.effort, EFFORTS)
        check_choice("parts_per", self.parts_per, PARTS_PER)
        check_choice("rare", self.rare, RARE)
        if self.tree != TREES[0] and self.algorithm != "traj-anon":
            raise OptionError(
                f"tree is '{self.tree}' and the algorithm {self.algorithm}; expected traj-anon, "
                f"which alone searches a tree of choice; pass --algorithm=traj-anon"
            )
        for name in ("length", "members", "rare_below"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, MAX_NUMBER)
        check_height(self.height)
        check_number("seed", self.seed, 0, MAX_SEED)
        if self.members is not None and self.members < self.k:
            raise OptionError(
                f"members is {self.members} and k is {self.k}; expected at least k members in a "
                f"bundle; pass a larger --members, or leave it out"
            )
        if self.parts is None and self.parts_per != PER_WINDOW:
            raise OptionError(
                f"parts are to be made per {self.parts_per}, and there are none; expected how many "
                f"users a part has at least; pass --parts, or leave out --parts-per"
            )
        if self.parts is not None:
            check_number("parts", self.parts, MIN_PART, self.bundle_size)
        if self.parts == self.bundle_size:
            object.__setattr__(self, "parts", None)
            object.__setattr__(self, "parts_per", PER_WINDOW)
        if self.suppress_above is not None and self.max_suppressed is not None:
            raise OptionError(
                "both a price and a budget for suppression are given; expected one of them; "
                "pass --suppress-above or --max-suppressed"
            )
        check_given("suppress_above", self.suppress_above, "an area above 0", is_above_0)
        expected = "a share from 0 up to 1, or 0% up to 100%"
        check_given(
            "max_suppressed", self.max_suppressed, expected, lambda s: _is_finite(s) and 0 <= s < 1
        )
        expected = "a square: its least x, its least y and the length of its side"
        check_given(
            "region", self.region, expected, lambda r: _is_list_of_numbers(r, 3) and r[2] > 0
        )
        # Numbers of numpy cannot be written as JSON.
        for name in ("k", "length", "height", "seed", "members", "parts", "rare_below"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("suppress_above", "max_suppressed"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))


def repeat_options(
    manifest: Mapping[str, Any], vocabulary: Mapping[str, Sequence[Any]] | None = None
) -> Options:
    """List the options that a manifest states; it does not hold the vocabulary, if any."""
    made, region, parts = (manifest[name] for name in ("parameters", "region", "parts"))
    same = (
        "length", "missing", "align", "windows", "tree", "effort", "seed", "suppress_above",
        "max_suppressed", "members", "rows_alike", "rare", "rare_below", "link_safe",
    )  # fmt: skip
    return Options(
        k=manifest["k"],
        algorithm=manifest["algorithm"],
        cloak=manifest["cloak"],
        every=str(made["every"]),
        max_gap=str(made["max_gap"]),
        height=manifest["height"],
        region=(region["x_min"], region["y_min"], region["side"]),
        vocabulary=vocabulary if made["vocabulary"] else None,
        allow=tuple(made["allow"]),
        **({} if parts is None else {"parts": parts["users"], "parts_per": parts["per"]}),
        **{name: made[name] for name in same},
    )


def holds_fixed(name: str) -> OptionError:
    """Build the error for a request column that must never be published."""
    return OptionError(
        f"request column '{name}' also holds the user, time or place, which would give senders "
        f"away; expected attributes of requests alone; leave it out"
    )


def marks_and_holds(name: str) -> OptionError:
    """Build the error for a column that is to mark location reports, and holds something else."""
    return OptionError(
        f"column '{name}' is to say which rows are location reports, and to hold the user, time, "
        f"place or a request; expected a column of its own; name another with --is-report"
    )


def is_custom(algorithm: object) -> bool:
    """Whether a name is one of an algorithm of others."""
    return isinstance(algorithm, str) and bool(CUSTOM_NAME.fullmatch(algorithm))


def is_zone(name: object) -> bool:
    """Whether both Python and Arrow know a time zone; each knows names that the other does not."""
    # Imported here, so that the command line starts without Arrow.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return isinstance(name, str) and bool(
            ZoneInfo(name) and pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), name)
        )
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False


def check_setting(name: str, value: Any, expected: str, is_good: Callable[[Any], bool]) -> None:
    """Raise if the value of a setting cannot be used."""
    if not is_good(value):
        shown = f"'{value}'" if isinstance(value, str) else repr(value)
        option = name.replace("_", "-")
        raise OptionError(f"{name} is {shown}; expected {expected}; pass another --{option}")


def check_given(name: str, value: Any, expected: str, is_good: Callable[[Any], bool]) -> None:
    """Raise if the value of a setting is given and cannot be used."""
    if value is not None:
        check_setting(name, value, expected, is_good)


def check_choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raise if the value of a setting is not one of those known."""
    check_setting(name, value, f"one of {', '.join(known)}", lambda given: given in known)


def check_number(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise if the value of a setting is not a whole number within limits."""
    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    top = math.inf if high is None else high
    expected = f"a whole number {limits}"
    check_setting(name, value, expected, lambda given: _is_whole(given) and low <= given <= top)


def check_height(height: Any) -> None:
    """Raise if a height is given that no region can have."""
    if height is not None:
        check_number("height", height, 1, MAX_HEIGHT)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_finite(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def is_above_0(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    return _is_finite(value) and value > 0


def _is_list_of_numbers(value: Any, count: int) -> bool:
    return isinstance(value, tuple | list) and len(value) == count and all(map(_is_finite, value))


def _is_rectangle(clip: Any) -> bool:
    return _is_list_of_numbers(clip, 4) and clip[0] <= clip[2] and clip[1] <= clip[3]


def _is_delimiter(value: Any) -> bool:
    is_character = isinstance(value, str) and len(value) == 1 and value.isascii()
    return is_character and value not in '"\r\n'
