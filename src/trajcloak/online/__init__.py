"""The same guarantee, instant by instant: publish while reports still arrive."""

from trajcloak.online.anonymizer import OnlineAnonymizer, PublishedInstant
from trajcloak.online.online_options import OnlineOptions

__all__ = ["OnlineAnonymizer", "OnlineOptions", "PublishedInstant"]
