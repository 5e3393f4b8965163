"""What may be published of requests: nothing that looks like an identifier or a place."""

from trajcloak.hygiene.attributes import Attribute, Senders, group_by_sender, list_attributes
from trajcloak.hygiene.check import check_hygiene

__all__ = ["Attribute", "Senders", "check_hygiene", "group_by_sender", "list_attributes"]
