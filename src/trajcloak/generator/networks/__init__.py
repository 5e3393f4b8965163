"""Where road networks come from: one file per source."""

from trajcloak.generator.networks.load import CITY, load_network

__all__ = ["CITY", "load_network"]
