"""Logs that are larger than memory: the stages of the pipeline, window by window on disk."""

from trajcloak.bounded.run import FilesResult, anonymize_files

__all__ = ["FilesResult", "anonymize_files"]
