"""People who move on a road network and send location requests: logs to try things on."""

from trajcloak.generator.generated_log import GeneratedLog, generate_log

__all__ = ["GeneratedLog", "generate_log"]
