"""What a consumer can ask of a release: answers with bounds that hold for certain.

The bounds are proved in ``docs/queries.md``.
"""

from trajcloak.query.answers import ASSUMPTIONS, Answer, RequestAnswer
from trajcloak.query.published_release import PublishedRelease, open_release
from trajcloak.query.questions import Region, Step, build_route, parse_region

__all__ = [
    "ASSUMPTIONS",
    "Answer",
    "PublishedRelease",
    "Region",
    "RequestAnswer",
    "Step",
    "build_route",
    "open_release",
    "parse_region",
]
