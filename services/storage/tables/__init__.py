"""The tables, declared once for checks and tests; the migrations create them.

SQLModel table classes do not validate, so every rule is a constraint of the database as well. Amounts of USD are
``numeric(20, 12)``: a token may cost less than a millionth of a dollar, and sums must stay exact. States are text with
a CHECK: native enums survive a downgrade and break the next upgrade.
"""

from services.storage.tables.campaign import CampaignTable, ProblemTable
from services.storage.tables.episode import AttemptTable, EpisodeTable, TurnStateTable, TurnTable
from services.storage.tables.journal import CoordinatorTable, EventTable, LeaderTable
from services.storage.tables.ledger import LedgerEntryTable, LlmCallTable
from services.storage.tables.naming import METADATA
from services.storage.tables.pool import AnswerTable, MeterTable
from services.storage.tables.search import CandidateTable, GenerationTable

__all__ = [
    "METADATA",
    "AnswerTable",
    "AttemptTable",
    "CampaignTable",
    "CandidateTable",
    "CoordinatorTable",
    "EpisodeTable",
    "EventTable",
    "GenerationTable",
    "LeaderTable",
    "LedgerEntryTable",
    "LlmCallTable",
    "MeterTable",
    "ProblemTable",
    "TurnStateTable",
    "TurnTable",
]
