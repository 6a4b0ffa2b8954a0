"""Audits: does a claimed guarantee hold? From counts, one run, scores, the sampler, or the claim on paper."""

from dpaccount.auditing.certificate import Verification, certificate, verify_certificate
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.counts import audit_counts
from dpaccount.auditing.game.canary import GaussianRatio, gradient_canary
from dpaccount.auditing.game.face import audit_game
from dpaccount.auditing.game.store import game_scores
from dpaccount.auditing.one_run import audit_one_run
from dpaccount.auditing.outcome import AuditResult
from dpaccount.auditing.readers import read_event, read_opacus, read_text
from dpaccount.auditing.report import claim_report
from dpaccount.auditing.runs import Reading
from dpaccount.auditing.scores import audit_samples
from dpaccount.auditing.sheet import Finding
from dpaccount.auditing.shuffled import shuffle_lower_bound
from dpaccount.auditing.verdict import ClaimVerdict, check_claim

__all__ = [
    "AuditResult",
    "Claim",
    "ClaimVerdict",
    "Finding",
    "GaussianRatio",
    "Reading",
    "Verification",
    "audit_counts",
    "audit_game",
    "audit_one_run",
    "audit_samples",
    "certificate",
    "check_claim",
    "claim_report",
    "game_scores",
    "gradient_canary",
    "read_event",
    "read_opacus",
    "read_text",
    "shuffle_lower_bound",
    "verify_certificate",
]
