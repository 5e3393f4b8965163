"""Convert movement data of other formats to logs."""

from trajcloak.movement.converted_log import ConvertedLog, convert_log

__all__ = ["ConvertedLog", "convert_log"]
