"""A release as one self-contained HTML page, for those who sign it and those who use it."""

from trajcloak.report.report_page import Report, write_report_page

__all__ = ["Report", "write_report_page"]
