"""Limits and breakers of models that all workers share, and replies that are kept to count again.

Going back is refused while there are calls that a kept reply answered: the tables before this revision have no place
for a call that nobody made.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

HIT = "not cache_hit or state = 'settled' and reserved_usd = 0 and reserved_tokens = 0 and cost_usd = 0"


def upgrade() -> None:
    lock()
    op.execute("""
        create table meter (
            key text not null,
            label text not null,
            failures integer not null default 0,
            openings integer not null default 0,
            open_until timestamptz,
            probe_until timestamptz,
            constraint pk_meter primary key (key),
            constraint ck_meter_breaker
                check (failures >= 0 and openings >= 0 and (openings = 0) = (open_until is null)),
            constraint ck_meter_probe check (probe_until is null or open_until is not null)
        )
    """)
    op.execute("""
        create table answer (
            id bigint generated always as identity,
            key text not null,
            campaign_id bigint not null,
            model text not null,
            output text not null,
            finish_reason text not null,
            prompt_tokens bigint not null,
            completion_tokens bigint not null,
            estimated boolean not null default false,
            created_at timestamptz not null default now(),
            constraint pk_answer primary key (id),
            constraint uq_answer_key unique (key),
            constraint fk_answer_campaign_id foreign key (campaign_id) references campaign (id),
            constraint ck_answer_used check (prompt_tokens >= 0 and completion_tokens >= 0)
        )
    """)
    op.execute("create index ix_answer_campaign_id on answer (campaign_id)")
    op.execute("alter table llm_call add column meter text")
    op.execute("alter table llm_call add column granted_at timestamptz")
    op.execute("alter table llm_call add column asked text")
    op.execute("alter table llm_call add column answer_key text")
    op.execute(f"alter table llm_call add constraint ck_llm_call_hit check ({HIT})")
    op.execute("create index ix_llm_call_granted on llm_call (meter, granted_at) where granted_at is not null")


def downgrade() -> None:
    lock()
    op.execute("alter table llm_call add constraint ck_llm_call_no_hits check (not cache_hit)")
    op.execute("alter table llm_call drop constraint ck_llm_call_no_hits")
    op.execute("alter table llm_call drop constraint ck_llm_call_hit")
    op.execute("drop index ix_llm_call_granted")
    for column in ("answer_key", "asked", "granted_at", "meter"):
        op.execute(f"alter table llm_call drop column {column}")
    op.execute("drop table answer")
    op.execute("drop table meter")


def lock() -> None:
    """Take all tables at once, in the order in which everybody takes their rows: work under way would deadlock else."""
    op.execute("lock table campaign, llm_call")
