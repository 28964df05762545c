"""Budgets of calls, a state of its own for a used-up budget, weights, a leader that shows signs of life.

Vectors are stored as they are: compressing random numbers costs time and saves nothing.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BEFORE = "'submitted', 'running', 'paused', 'completed', 'failed', 'cancelled'"
AFTER = "'submitted', 'running', 'paused', 'budget_exhausted', 'completed', 'failed', 'cancelled'"
VECTORS = (("generation", "mean"), ("generation", "fitness"), ("candidate", "theta"), ("coordinator", "theta"))
# The first release wrote a used-up budget as a pause with a reason that began like this.
EXHAUSTED = """
update campaign set state = 'budget_exhausted', stop_reason = substr(stop_reason, length('budget_exhausted: ') + 1)
where state = 'paused' and stop_reason like 'budget_exhausted: %'
"""
PAUSED = """
update campaign set state = 'paused', stop_reason = 'budget_exhausted: ' || stop_reason
where state = 'budget_exhausted'
"""


def upgrade() -> None:
    op.execute("alter table campaign add column call_budget bigint")
    op.execute("alter table campaign add column weight double precision default 1 not null")
    op.execute("alter table campaign add constraint ck_campaign_calls check (calls_started <= call_budget)")
    op.execute("alter table campaign add constraint ck_campaign_weight check (weight > 0 and weight < 'infinity')")
    op.execute("alter table campaign set (fillfactor = 50)")
    states(AFTER)
    op.execute(EXHAUSTED)
    op.execute("alter table leader add column beat_at timestamptz default now() not null")
    op.execute("alter table leader add column holder text")
    for table, column in VECTORS:
        op.execute(f"alter table {table} alter column {column} set storage external")


def downgrade() -> None:
    for table, column in VECTORS:
        op.execute(f"alter table {table} alter column {column} set storage extended")
    op.execute("alter table leader drop column holder")
    op.execute("alter table leader drop column beat_at")
    op.execute(PAUSED)
    states(BEFORE)
    op.execute("alter table campaign reset (fillfactor)")
    op.execute("alter table campaign drop column weight")
    op.execute("alter table campaign drop column call_budget")


def states(allowed: str) -> None:
    op.execute("alter table campaign drop constraint ck_campaign_state")
    op.execute(f"alter table campaign add constraint ck_campaign_state check (state in ({allowed}))")
