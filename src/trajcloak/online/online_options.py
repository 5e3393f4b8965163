"""What a caller can ask of a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trajcloak.errors import OptionError
from trajcloak.online.prediction import PREDICTORS, Predictor
from trajcloak.options import DROP, KEEP, MIN_K, MIN_PART, check_choice, check_number
from trajcloak.trajectories import format_duration


@dataclass(frozen=True)
class OnlineOptions:
    """All settings of a stream; all of them are public.

    Attributes
    ----------
    k : int
        Least number of users in a group; at least 2.
    every : int
        Length of an instant, in the unit of the times of reports.
    epoch : int
        Instants for which groups stay together: how long requests of one sender may be linked.
    lag : int
        Instants that are waited for before one is published.
    late : int
        How long after its end an instant waits for reports, in the unit of ``every``.
    one_input : bool
        Whether requests come with reports. Otherwise they come on their own, and users are
        known to have reported whether or not they sent any.
    hold : int
        Instants for which the last known place of a user counts if reports are missing. With
        one input 0: who has not reported cannot have sent anything.
    parts : int, optional
        Least number of users in a part: at each instant, the members of a group are shown in
        parts, each with a rectangle of its own. Default: each group has one rectangle.
    predictor : {"learned", "damped", "hold"} or Predictor
        How ways are predicted; a :class:`trajcloak.online.prediction.Predictor` of your own is
        for Python only.
    rare : {"drop", "keep"}
    rare_below : int
        With ``drop``, a request is published only if at least so many groups show it at the
        instant.
    vocabulary : dict of list, optional
        For each request attribute the values that may be published.
    """

    k: int
    every: int
    epoch: int
    lag: int = 0
    late: int = 0
    one_input: bool = False
    hold: int = 0
    parts: int | None = None
    predictor: str | Predictor = "learned"
    rare: str = DROP
    rare_below: int = 2
    vocabulary: Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("k", MIN_K), ("every", 1), ("epoch", 1), ("lag", 0), ("late", 0), ("hold", 0),
            ("rare_below", 1),
        ):  # fmt: skip
            check_number(name, getattr(self, name), least)
        if self.parts is not None:
            check_number("parts", self.parts, MIN_PART)
        check_choice("rare", self.rare, (DROP, KEEP))
        if not hasattr(self.predictor, "predict"):
            check_choice("predictor", self.predictor, tuple(PREDICTORS))
        if self.lag >= self.epoch:
            raise OptionError(
                f"lag is {self.lag} and the epoch {self.epoch}; expected a lag shorter than the "
                f"epoch; pass another --lag or --epoch"
            )
        if self.parts == self.k:
            object.__setattr__(self, "parts", None)
        if self.parts is not None and self.parts > self.k:
            raise OptionError(
                f"parts is {self.parts} and k is {self.k}; expected parts of at most k users; "
                f"pass a smaller --parts, or leave it out"
            )
        if self.one_input and self.hold:
            raise OptionError(
                "hold is asked for with one input; expected two inputs: a user without a report "
                "cannot have sent a request with it; leave out --hold"
            )

    def describe(self) -> dict[str, Any]:
        """Describe what only streams are published with, as the manifest does."""
        return {
            "lag": self.lag,
            "hold": self.hold,
            "late": format_duration(self.late, has_timestamps=True),
            "predictor": self.predictor,
        }
