"""Which requests may be published, decided after users are bundled.

Every rule here is a function of the eligible sets alone, and of who is in which bundle
(invariant 8 of ``docs/guarantee.md``): never of who sent a request or how often.
"""

from trajcloak.requests.decide import (
    WindowKinds,
    check_request_options,
    decide_requests,
)
from trajcloak.requests.suspicions import check_values

__all__ = [
    "WindowKinds",
    "check_request_options",
    "check_values",
    "decide_requests",
]
