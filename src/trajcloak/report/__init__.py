"""A release as one self-contained HTML page, for those who sign it and those who use it."""

from trajcloak.report.report_page import Report, write_report

__all__ = ["Report", "write_report"]
