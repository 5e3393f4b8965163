"""What a consumer can ask of a release: answers with bounds that hold for certain.

The bounds are proved in ``docs/queries.md``.
"""

from trajcloak.query.bounds import ASSUMPTIONS, UNLINKED, Answer, RequestAnswer
from trajcloak.query.published_release import PublishedRelease, open_published
from trajcloak.query.questions import Rectangle, build_route, parse_region

__all__ = [
    "ASSUMPTIONS",
    "UNLINKED",
    "Answer",
    "PublishedRelease",
    "Rectangle",
    "RequestAnswer",
    "build_route",
    "open_published",
    "parse_region",
]
