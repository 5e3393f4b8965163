"""What is answered: two bounds that hold for certain, and an estimate between them."""

from dataclasses import asdict, dataclass
from typing import Any

ASSUMPTIONS = (
    "Bounds assume nothing but that the release is what its manifest says.",
    "Estimates assume that users are spread evenly over their cloaks, independently of each "
    "other, of other instants and of what they send, and that every published request has one "
    "sender.",
    "Answers are about published users; withheld and suppressed users are not in the release.",
)


@dataclass(frozen=True)
class Answer:
    """How many there are: at least, about, and at most.

    Attributes
    ----------
    lower, upper : int
        Bounds of the true number.
    estimate : float
        Between the bounds; rests on :data:`ASSUMPTIONS`.
    """

    lower: int
    estimate: float
    upper: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return asdict(self)


NONE = Answer(0, 0.0, 0)


@dataclass(frozen=True)
class RequestAnswer:
    """How often a value was asked for.

    Attributes
    ----------
    requests : Answer
        Entries of the release, which are distinct in window, bundle, instant and all
        attributes, with at least one sender among the users in question.
    users : Answer
        Distinct users in question who sent such a request.
    """

    requests: Answer
    users: Answer

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary."""
        return asdict(self)


def intersect(answers: list[Answer], num_users: int) -> Answer:
    """Bound how many of ``num_users`` users are in all of several sets."""
    lower = max(0, sum(a.lower for a in answers) - (len(answers) - 1) * num_users)
    upper = min(a.upper for a in answers)
    estimate = float(num_users)
    for answer in answers:
        estimate *= answer.estimate / num_users
    return Answer(lower, min(max(estimate, lower), upper), upper)


def unite(answers: list[Answer], most: int) -> Answer:
    """Bound how many users, ``most`` at most, are in any of several sets."""
    lower = max((a.lower for a in answers), default=0)
    upper = min(most, sum(a.upper for a in answers))
    return Answer(lower, min(sum(a.estimate for a in answers), float(upper)), upper)


def add(answers: list[Answer]) -> Answer:
    """Add up numbers of different things."""
    return Answer(
        sum(a.lower for a in answers),
        sum(a.estimate for a in answers),
        sum(a.upper for a in answers),
    )
