"""Other people's movement data as logs."""

from trajcloak.movement.converted_log import ConvertedLog, convert_log

__all__ = ["ConvertedLog", "convert_log"]
