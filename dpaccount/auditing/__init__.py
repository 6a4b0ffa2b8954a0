"""Audits: does a claimed guarantee hold? From counts, one run, scores, the sampler, or the claim on paper."""

from dpaccount.auditing.counts import audit_counts
from dpaccount.auditing.one_run import audit_one_run
from dpaccount.auditing.scores import audit_samples
from dpaccount.auditing.shuffled import shuffle_lower_bound

__all__ = ["audit_counts", "audit_one_run", "audit_samples", "shuffle_lower_bound"]
