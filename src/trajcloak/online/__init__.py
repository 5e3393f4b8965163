"""The same guarantee, instant by instant: publish while reports still arrive."""

from trajcloak.online.anonymizer import OnlineAnonymizer
from trajcloak.online.online_options import OnlineOptions
from trajcloak.online.published_instant import PublishedInstant

__all__ = ["OnlineAnonymizer", "OnlineOptions", "PublishedInstant"]
