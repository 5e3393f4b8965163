"""An embedded city: two shores, a bay, bridges; nothing is downloaded."""

from trajcloak.generator.networks.city.build import (
    FEWEST_JUNCTIONS,
    JUNCTIONS,
    MOST_JUNCTIONS,
    build_city,
)

__all__ = ["FEWEST_JUNCTIONS", "JUNCTIONS", "MOST_JUNCTIONS", "build_city"]
