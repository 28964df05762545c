"""The promises of the database as checks: every invariant with its statement, and what breaks it."""

from services.storage.audit.findings import Finding, Patience, Verdict
from services.storage.audit.inspection import INVARIANTS, audit

__all__ = ["INVARIANTS", "Finding", "Patience", "Verdict", "audit"]
