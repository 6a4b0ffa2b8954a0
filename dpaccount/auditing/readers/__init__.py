"""Claims from what others wrote: Opacus' histories, dp-accounting's events, privacy statements, a line of text, and files of claims."""

from dpaccount.auditing.readers.events import read_event
from dpaccount.auditing.readers.opacus import read_opacus
from dpaccount.auditing.readers.sources import read_claims
from dpaccount.auditing.readers.text import read_text

__all__ = ["read_claims", "read_event", "read_opacus", "read_text"]
