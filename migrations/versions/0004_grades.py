"""Why a reward is what it is, who gave a verdict, problems with options and tests, judges, a hash of all problems.

Going back is refused while there are problems that the tables before this revision have no scorer for.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

OLD = "'exact', 'numeric', 'literal', 'recorded'"
NEW = f"{OLD}, 'mathematics', 'choice', 'rules', 'program', 'judge'"
CALLERS = "'worker', 'thinker', 'verifier'"


def upgrade() -> None:
    lock()
    op.execute("alter table campaign add column problems_sha256 text")
    for column in ("outcome", "outcome_detail", "decided_by"):
        op.execute(f"alter table episode add column {column} text")
    check("episode", "outcome", "outcome is null or state = 'scored'")
    op.execute("alter table problem add column checks jsonb")
    replace("problem", "scorer", f"scorer in ({NEW})")
    replace("problem", "answer", "scorer = 'judge' or (answer is not null) = (scorer not in ('recorded', 'program'))")
    check("problem", "checks", "(checks is not null) = (scorer in ('choice', 'program'))")
    op.execute("alter table turn add column verdict_source text")
    check("turn", "verdict_source", "verdict_source in ('model', 'machine', 'rule')")
    replace("llm_call", "role", f"role in ({CALLERS}, 'judge')")


def downgrade() -> None:
    lock()
    replace("llm_call", "role", f"role in ({CALLERS})")
    op.execute("alter table turn drop constraint ck_turn_verdict_source")
    op.execute("alter table turn drop column verdict_source")
    replace("problem", "scorer", f"scorer in ({OLD})")
    replace("problem", "answer", "(answer is not null) = (scorer <> 'recorded')")
    op.execute("alter table problem drop constraint ck_problem_checks")
    op.execute("alter table problem drop column checks")
    op.execute("alter table episode drop constraint ck_episode_outcome")
    for column in ("decided_by", "outcome_detail", "outcome"):
        op.execute(f"alter table episode drop column {column}")
    op.execute("alter table campaign drop column problems_sha256")


def replace(table: str, name: str, condition: str) -> None:
    op.execute(f"alter table {table} drop constraint ck_{table}_{name}")
    check(table, name, condition)


def check(table: str, name: str, condition: str) -> None:
    op.execute(f"alter table {table} add constraint ck_{table}_{name} check ({condition})")


def lock() -> None:
    """Take all tables at once, in the order in which everybody takes their rows: work under way would deadlock else."""
    op.execute("lock table campaign, problem, episode, turn, llm_call")
