"""The fields of ``manifest.json``, their types, and what each may be.

The types of this module are the schema: :func:`find_manifest_problems` compares any value of JSON
with them. ``Annotated`` adds functions that tell whether a value of the type is one that the field
may have. A manifest without problems is a plain dictionary whose fields can be relied on.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from trajcloak.given_values import parse_crs
from trajcloak.options import (
    ALGORITHMS,
    ALIGNMENTS,
    CLOAKS,
    DROPPABLE,
    EFFORTS,
    MAX_COORDINATE,
    MAX_HEIGHT,
    MAX_NUMBER,
    MAX_SEED,
    MBR,
    MIN_CELL_ULPS,
    MIN_K,
    MISSING,
    OTHER,
    RARE,
    REPORT_AWARE,
    TP_AWARE,
    TREES,
    WITHHOLD,
    is_custom,
    is_zone,
)

FORMAT_VERSION = 1
LONGEST_TEXT = 1000
MAX_COUNT = 2**53
MAX_AREA = 1e300
MAX_TICKS = 2**63 - 1
LOCATED = ("reported", "interpolated", "held", "missing")
"""How the location of a user at an instant is known."""

Rule = Callable[[Any], bool]


def _between(low: float, high: float) -> Rule:
    return lambda value: low <= value <= high


def _above_0(high: float) -> Rule:
    return lambda value: 0 < value <= high


def _one_of(known: Sequence[str]) -> Rule:
    return lambda value: value in known


def _like(pattern: str) -> Rule:
    return lambda value: re.fullmatch(pattern, value) is not None


def _is_plane(text: str) -> bool:
    """Whether a text names a coordinate system to which places on the Earth can be projected."""
    crs = parse_crs(text)
    if crs is None or not crs.is_projected:
        return False
    # Imported here, since releases in planar coordinates are read without it.
    import pyproj

    try:
        pyproj.Transformer.from_crs("OGC:CRS84", crs, always_xy=True)
    except pyproj.exceptions.ProjError:
        return False
    return True


def _is_rectangle(text: str) -> bool:
    try:
        x_min, y_min, x_max, y_max = map(float, text.split(","))
    except ValueError:
        return False
    is_box = -math.inf < x_min <= x_max < math.inf and -math.inf < y_min <= y_max < math.inf
    return is_box and text == ",".join(map(repr, (x_min, y_min, x_max, y_max)))


def _is_list_of_reasons(text: str) -> bool:
    reasons = text.split(",")
    return {*reasons} <= {*DROPPABLE} and reasons == sorted({*reasons})


Count = Annotated[int, _between(0, MAX_COUNT)]
Number = Annotated[int, _between(1, MAX_NUMBER)]
Coordinate = Annotated[float, _between(-MAX_COORDINATE, MAX_COORDINATE)]
Area = Annotated[float, _between(0, MAX_AREA)]
Text = Annotated[str, lambda text: len(text) <= LONGEST_TEXT]
Ticks = Annotated[int, _between(-MAX_TICKS, MAX_TICKS)]
Step = Annotated[int, _between(1, MAX_TICKS)]
Timestamp = Annotated[str, _like(r"-?[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z?")]
Span = Annotated[str, _like(r"[1-9][0-9]{0,18}(us|ms|s)")]
Names = Annotated[list[Text], lambda names: len(set(names)) == len(names)]


class PublishedRegion(TypedDict):
    """The square that holds all cloaks: its lower left corner and its side."""

    x_min: Coordinate
    y_min: Coordinate
    side: Annotated[float, _above_0(MAX_COORDINATE)]


class PublishedParts(TypedDict):
    """How bundles are shown in parts."""

    users: Number
    per: Annotated[str, _one_of(("window", "instant"))]


class Withheld(TypedDict):
    """Users in no bundle, windows with too few users, and sets that are not eligible."""

    users: Count
    windows: Count
    sets: Count


class StreamParameters(TypedDict):
    """What a stream was published with, beyond what all runs have."""

    lag: Annotated[int, _between(0, MAX_NUMBER)]
    hold: Annotated[int, _between(0, MAX_NUMBER)]
    late: Annotated[str, _like(r"[0-9]{1,19}(us|ms|s)")]
    predictor: Annotated[str, _one_of(("learned", "damped", "hold"))]


class Parameters(TypedDict):
    """All public parameters of a run."""

    origin: Ticks | Timestamp
    every: Step | Span
    max_gap: Ticks | Span
    length: Number | None
    missing: Annotated[str, _one_of(MISSING)]
    tz: Annotated[str, is_zone] | None
    log_crs: Annotated[str, lambda text: parse_crs(text) is not None] | None
    clip: Annotated[str, _is_rectangle] | None
    max_speed: Annotated[float, _above_0(MAX_COORDINATE)] | None
    drop: Annotated[str, _is_list_of_reasons] | None
    align: Annotated[str, _one_of(ALIGNMENTS)]
    windows: Annotated[str, _like(r"[0-9:,\- ]{1,1000}")] | None
    tree: Annotated[str, _one_of(TREES)]
    effort: Annotated[str, _one_of(EFFORTS)]
    seed: Annotated[int, _between(0, MAX_SEED)]
    suppress_above: Annotated[float, _above_0(MAX_AREA)] | None
    max_suppressed: Annotated[float, _between(0, 1)] | None
    members: Number | None
    rows_alike: bool
    requests: Names
    vocabulary: bool
    rare: Annotated[str, _one_of(RARE)]
    rare_below: Number
    link_safe: bool
    allow: Annotated[Names, lambda names: names == sorted(names)]
    blocks: NotRequired[Number]
    stream: NotRequired[StreamParameters]


class IntervalQuantiles(TypedDict):
    """Quantiles of the times between two reports of a user."""

    p5: Ticks | Span
    median: Ticks | Span
    p95: Ticks | Span


class IngestReport(TypedDict):
    """What came in."""

    rows: Count
    dropped: Annotated[dict[str, Count], lambda counts: counts.keys() == {"clip", *DROPPABLE}]
    repeated: Count
    users: Count
    start: Ticks | Timestamp
    end: Ticks | Timestamp
    instants: Count
    interval: IntervalQuantiles | None
    long_gaps: Count
    user_instants: Annotated[dict[str, Count], lambda counts: counts.keys() == {*LOCATED}]
    crs: Text | None
    zone: Text | None
    ambiguous: Count
    nonexistent: Count


class Manifest(TypedDict):
    """The content of ``manifest.json``; ``docs/data-model.md`` says what each field means."""

    format_version: Annotated[int, _between(FORMAT_VERSION, FORMAT_VERSION)]
    software: Text
    k: Annotated[int, _between(MIN_K, MAX_NUMBER)]
    algorithm: Annotated[str, lambda name: name in ALGORITHMS or is_custom(name)]
    parameters: Parameters
    cloak: Annotated[str, _one_of(CLOAKS)]
    crs: Annotated[str, _is_plane] | None
    region: PublishedRegion
    height: Annotated[int, _between(1, MAX_HEIGHT)]
    windows: Number
    instants: Number
    users: Number
    bundles: Number
    smallest_bundle: Number
    cost: Area
    mean_cloak_area: Area
    requests: Count
    withheld: Withheld
    suppressed: Count
    attacker: Annotated[str, _one_of((TP_AWARE, REPORT_AWARE))]
    parts: PublishedParts | None
    ingest: IngestReport


def find_manifest_problems(manifest: object) -> list[str]:
    """Compare a value of JSON with what a manifest is.

    Values and unknown names are never quoted: in a damaged manifest they may be anything.

    Examples
    --------
    >>> find_manifest_problems({"k": "5"})[:2]
    ["field 'format_version' is missing", "field 'software' is missing"]
    """
    problems = list(_find_problems(manifest, Manifest, "manifest"))
    if not problems:
        problems = list(_find_contradictions(manifest))  # type: ignore[arg-type]
    return problems


def _find_contradictions(manifest: Manifest) -> Iterator[str]:
    """Find fields that do not go together."""
    x_min, y_min, side = (manifest["region"][name] for name in ("x_min", "y_min", "side"))
    reach = max(map(abs, (x_min, y_min, x_min + side, y_min + side)))
    if math.ldexp(side, -manifest["height"]) < MIN_CELL_ULPS * math.ulp(reach):
        yield "field 'height' is too large for the region"
    made = manifest["parameters"]
    if (made["members"] or manifest["k"]) < manifest["k"]:
        yield "field 'parameters.members' is less than k"
    if "stream" in made and not (
        made["length"] is not None
        and made["stream"]["lag"] < made["length"]
        and (manifest["cloak"], made["missing"], made["align"]) == (MBR, WITHHOLD, "none")
        # Who is absent is not thought to be between two reports: the later one is not known yet.
        and made["max_gap"] == made["every"]
        and (made["members"], made["windows"], made["link_safe"]) == (None, None, False)
        and (made["rare"] != OTHER and manifest["suppressed"] == 0)
        and (manifest["parts"] is None or manifest["parts"]["per"] == "instant")
    ):
        yield "field 'parameters.stream' does not go with other fields"


def _find_problems(value: Any, type_: Any, field: str) -> Iterator[str]:
    choices = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    if value is None and NoneType in choices:
        return
    fields = next(filter(is_typeddict, choices), None)
    if fields is not None and isinstance(value, dict):
        yield from _find_in_fields(value, fields, "" if fields is Manifest else f"{field}.")
    elif fields is not None or not any(_is_like(value, choice) for choice in choices):
        yield f"field '{field}' has a value that it cannot have"


def _find_in_fields(value: dict[str, Any], type_: Any, prefix: str) -> Iterator[str]:
    hints = get_type_hints(type_, include_extras=True)
    for name, hint in hints.items():
        if get_origin(hint) is NotRequired:
            (hint,) = get_args(hint)
        if name in value:
            yield from _find_problems(value[name], hint, f"{prefix}{name}")
        elif name in type_.__required_keys__:
            yield f"field '{prefix}{name}' is missing"
    num_unknown = len(value.keys() - hints.keys())
    if num_unknown:
        yield f"{num_unknown:,} fields of '{prefix or 'manifest'}' are not those of the format"


def _is_like(value: Any, type_: Any) -> bool:
    if get_origin(type_) is Annotated:
        plain, *rules = get_args(type_)
        return _is_like(value, plain) and all(rule(value) for rule in rules)
    if get_origin(type_) is list:
        return isinstance(value, list) and all(_is_like(item, get_args(type_)[0]) for item in value)
    if get_origin(type_) is dict:
        kind = get_args(type_)[1]
        return isinstance(value, dict) and all(_is_like(item, kind) for item in value.values())
    if isinstance(value, bool):
        return type_ is bool
    if type_ is float:
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, type_)
