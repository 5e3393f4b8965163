"""What may be published of requests: no identifiers, no places, rare values as asked for."""

from trajcloak.hygiene.attributes import (
    Attribute,
    list_attributes,
    select_values,
)
from trajcloak.hygiene.check import check_hygiene
from trajcloak.hygiene.rare import (
    RareColumn,
    Treatment,
    count_rare,
    count_recurring,
    describe_rare,
    find_rare,
    list_sent,
    treat_rare,
)

__all__ = [
    "Attribute",
    "RareColumn",
    "Treatment",
    "check_hygiene",
    "count_rare",
    "count_recurring",
    "describe_rare",
    "find_rare",
    "list_attributes",
    "list_sent",
    "select_values",
    "treat_rare",
]
