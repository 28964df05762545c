"""What a campaign's workers read with, and coordinators that were released by hand or imported.

Going back drops those coordinators: the tables before this revision have no place for them.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    lock()
    op.execute("alter table campaign add column reading jsonb")
    op.execute("alter table coordinator add column origin text default 'search' not null")
    op.execute("alter table coordinator add column reading jsonb")
    op.execute("alter table coordinator add column description jsonb")
    op.execute("alter table coordinator alter column campaign_id drop not null")
    op.execute("alter table coordinator drop constraint uq_coordinator_campaign_id_generation")
    op.execute("create unique index uq_coordinator_search on coordinator (campaign_id) where origin = 'search'")
    check("origin", "origin in ('search', 'hand', 'import')")
    check("campaign", "(campaign_id is null) = (origin = 'import')")
    check("description", "(description is not null) = (origin = 'import')")


def downgrade() -> None:
    lock()
    op.execute("alter table coordinator disable trigger coordinator_no_change")
    op.execute("delete from coordinator where origin <> 'search'")
    op.execute("alter table coordinator enable trigger coordinator_no_change")
    for name in ("description", "campaign", "origin"):
        op.execute(f"alter table coordinator drop constraint ck_coordinator_{name}")
    op.execute("drop index uq_coordinator_search")
    op.execute(
        "alter table coordinator add constraint uq_coordinator_campaign_id_generation unique (campaign_id, generation)"
    )
    op.execute("alter table coordinator alter column campaign_id set not null")
    for column in ("description", "reading", "origin"):
        op.execute(f"alter table coordinator drop column {column}")
    op.execute("alter table campaign drop column reading")


def check(name: str, condition: str) -> None:
    op.execute(f"alter table coordinator add constraint ck_coordinator_{name} check ({condition})")


def lock() -> None:
    """Take all tables at once, in the order in which everybody takes their rows: work under way would deadlock else."""
    op.execute("lock table campaign, coordinator")
