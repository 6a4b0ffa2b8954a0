"""Reports of verdicts: one HTML file for a browser or for print, which fetches nothing."""

from dpaccount.auditing.report.page import claim_report

__all__ = ["claim_report"]
