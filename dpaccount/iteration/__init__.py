"""Last-iterate accounting: the privacy of an iteration whose intermediate models stay hidden."""

from dpaccount.iteration.shifted import Interpolation, Schedule

__all__ = ["Interpolation", "Schedule"]
