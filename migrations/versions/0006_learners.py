"""Other learners and rivals: labelling generations, states of turns, what a learner remembers, pauses of providers.

Going back is refused while there are generations, candidates or calls that the tables before this revision have no kind
for.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

GENERATIONS = "'training', 'validation', 'evaluation'"
CANDIDATES = "'sample', 'mean', 'single', 'random'"
CALLERS = "'worker', 'thinker', 'verifier', 'judge'"
VECTORS = "'sample', 'mean'"
KEPT = (
    "(kept_prompt_tokens is null) = (kept_completion_tokens is null)"
    " and (kept_prompt_tokens is null or cache_hit and kept_prompt_tokens >= 0 and kept_completion_tokens >= 0)"
)
CHOOSERS = "'policy', 'thinker', 'fixed'"


def upgrade() -> None:
    lock()
    replace("generation", "kind", f"kind in ('labelling', {GENERATIONS})")
    replace("candidate", "kind", f"kind in ({CANDIDATES}, 'rival')")
    replace("candidate", "vectorless", f"theta is null or kind in ({VECTORS}, 'rival')")
    replace("llm_call", "role", f"role in ({CALLERS}, 'coordinator')")
    replace("turn", "role_source", f"role_source in ({CHOOSERS}, 'chance')")
    op.execute("alter table generation add column memory bytea")
    check("generation", "memory", "octet_length(memory) > 0 and octet_length(memory) % 8 = 0")
    op.execute("alter table meter add column rest_until timestamptz")
    op.execute("alter table llm_call add column kept_prompt_tokens bigint, add column kept_completion_tokens bigint")
    check("llm_call", "kept", KEPT)
    op.execute("""
        create table turn_state (
            episode_id bigint not null,
            attempt integer not null,
            number integer not null,
            state bytea not null,
            constraint pk_turn_state primary key (episode_id, attempt, number),
            constraint fk_turn_state_episode_id foreign key (episode_id, attempt)
                references attempt (episode_id, number),
            constraint ck_turn_state_number check (number > 0),
            constraint ck_turn_state_state check (octet_length(state) > 0 and octet_length(state) % 4 = 0)
        )
    """)


def downgrade() -> None:
    lock()
    replace("turn", "role_source", f"role_source in ({CHOOSERS})")
    replace("llm_call", "role", f"role in ({CALLERS})")
    replace("candidate", "vectorless", f"theta is null or kind in ({VECTORS})")
    replace("candidate", "kind", f"kind in ({CANDIDATES})")
    replace("generation", "kind", f"kind in ({GENERATIONS})")
    op.execute("alter table llm_call drop constraint ck_llm_call_kept")
    op.execute("alter table llm_call drop column kept_prompt_tokens, drop column kept_completion_tokens")
    op.execute("drop table turn_state")
    op.execute("alter table meter drop column rest_until")
    op.execute("alter table generation drop constraint ck_generation_memory")
    op.execute("alter table generation drop column memory")


def replace(table: str, name: str, condition: str) -> None:
    op.execute(f"alter table {table} drop constraint ck_{table}_{name}")
    check(table, name, condition)


def check(table: str, name: str, condition: str) -> None:
    op.execute(f"alter table {table} add constraint ck_{table}_{name} check ({condition})")


def lock() -> None:
    """Take all tables at once, in the order in which everybody takes their rows: work under way would deadlock else."""
    op.execute("lock table campaign, generation, candidate, attempt, turn, llm_call, meter")
