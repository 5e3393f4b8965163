"""Publish location-request logs without giving their senders away."""

__version__ = "0.1.0"
