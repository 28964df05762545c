"""Why a reward is what it is, problems with options and tests, and a hash of what a campaign was given.

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


def upgrade() -> None:
    lock()
    op.execute("alter table campaign add column problems_sha256 text")
    for column in ("outcome", "outcome_detail", "decided_by"):
        op.execute(f"alter table episode add column {column} text")
    check("episode", "outcome", "outcome is null or state = 'scored'")
    op.execute("alter table problem add column checks jsonb")
    replace("scorer", f"scorer in ({NEW})")
    replace("answer", "scorer = 'judge' or (answer is not null) = (scorer not in ('recorded', 'program'))")
    check("problem", "checks", "(checks is not null) = (scorer in ('choice', 'program'))")


def downgrade() -> None:
    lock()
    replace("scorer", f"scorer in ({OLD})")
    replace("answer", "(answer is not null) = (scorer <> 'recorded')")
    op.execute("alter table problem drop constraint ck_problem_checks")
    op.execute("alter table problem drop column checks")
    op.execute("alter table episode drop constraint ck_episode_outcome")
    for column in ("decided_by", "outcome_detail", "outcome"):
        op.execute(f"alter table episode drop column {column}")
    op.execute("alter table campaign drop column problems_sha256")


def replace(name: str, condition: str) -> None:
    op.execute(f"alter table problem drop constraint ck_problem_{name}")
    check("problem", name, condition)


def check(table: str, name: str, condition: str) -> None:
    op.execute(f"alter table {table} add constraint ck_{table}_{name} check ({condition})")


def lock() -> None:
    """Take all tables at once, in the order in which everybody takes their rows: work under way would deadlock else."""
    op.execute("lock table campaign, problem, episode")
