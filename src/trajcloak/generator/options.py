"""What a caller can ask of the generator, checked."""

import operator
from dataclasses import dataclass

from trajcloak.errors import OptionError
from trajcloak.generator.ids import ID_BITS
from trajcloak.generator.networks.city import FEWEST_JUNCTIONS, MOST_JUNCTIONS
from trajcloak.generator.speeds import MOST_CLASSES, SPEED_DIVISORS

ON_ARRIVAL = ("continue", "stay")
"""What objects can do at the end of a trip."""

_LONGEST_STEP = 86_400


@dataclass(frozen=True)
class GeneratorOptions:
    """The options of ``generate_log``, which documents them.

    Raises
    ------
    OptionError
        If one has an unusable value.
    """

    users: int
    length: int
    seed: int
    request_share: float
    every_seconds: int
    junctions: int
    speed: str
    classes: int
    on_arrival: str

    def __post_init__(self) -> None:
        _check_whole_number("users", self.users, 1, 1 << ID_BITS)
        _check_whole_number("length", self.length, 1, (1 << 31) - 1)
        _check_whole_number("seed", self.seed, 0, (1 << 64) - 1)
        _check_whole_number("every_seconds", self.every_seconds, 1, _LONGEST_STEP)
        _check_whole_number("junctions", self.junctions, FEWEST_JUNCTIONS, MOST_JUNCTIONS)
        _check_whole_number("classes", self.classes, 1, MOST_CLASSES)
        _check_choice("speed", self.speed, tuple(SPEED_DIVISORS))
        _check_choice("on_arrival", self.on_arrival, ON_ARRIVAL)
        _check_share("request_share", self.request_share)


def _check_whole_number(name: str, value: int, low: int, high: int) -> None:
    try:
        is_good = low <= operator.index(value) <= high
    except TypeError:
        is_good = False
    if not is_good:
        raise OptionError(
            f"{name} is {value!r}; expected a whole number from {low} to {high}; "
            f"pass --{name.replace('_', '-')} such a number"
        )


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(
            f"{name} is {value!r}; expected {' or '.join(choices)}; "
            f"pass --{name.replace('_', '-')} one of them"
        )


def _check_share(name: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise OptionError(
            f"{name} is {value!r}; expected a number from 0 to 1; "
            f"pass 0.2 for one request in five locations"
        )
