"""Other people's movement data as logs: one file per format."""

from trajcloak.movement.convert import ConvertedLog, convert_log

__all__ = ["ConvertedLog", "convert_log"]
