"""The first tables.

Written by hand and never changed again: a later release adds a revision. Statements are plain SQL, so that what runs
is what stands here. Append-only and immutable tables are guarded by triggers, because a CHECK sees no history.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LEADER = """
create table leader (
    id integer not null,
    epoch bigint not null,
    constraint pk_leader primary key (id),
    constraint ck_leader_single check (id = 1),
    constraint ck_leader_epoch check (epoch >= 0)
)
"""

CAMPAIGN = """
create table campaign (
    id bigint generated always as identity constraint pk_campaign primary key,
    name text not null,
    state text not null,
    spec jsonb not null,
    spec_sha256 text not null,
    seed bigint not null,
    dimension integer not null,
    versions jsonb not null,
    forked_from_id bigint,
    forked_from_generation integer,
    max_attempts integer not null,
    episode_budget integer not null,
    token_budget bigint,
    usd_budget numeric(20, 12),
    wall_clock_budget_seconds double precision,
    episodes_reserved integer default 0 not null,
    calls_started bigint default 0 not null,
    tokens_charged bigint default 0 not null,
    tokens_reserved bigint default 0 not null,
    tokens_overrun bigint default 0 not null,
    usd_charged numeric(20, 12) default 0 not null,
    usd_reserved numeric(20, 12) default 0 not null,
    usd_overrun numeric(20, 12) default 0 not null,
    stop_reason text,
    running_seconds double precision default 0 not null,
    running_since timestamptz,
    created_at timestamptz default now() not null,
    started_at timestamptz,
    ended_at timestamptz,
    constraint uq_campaign_name unique (name),
    constraint ck_campaign_state check (
        state in ('submitted', 'running', 'paused', 'completed', 'failed', 'cancelled')
    ),
    constraint ck_campaign_stop_reason check ((stop_reason is not null) = (state not in ('submitted', 'running'))),
    constraint ck_campaign_ended check ((ended_at is not null) = (state in ('completed', 'failed', 'cancelled'))),
    constraint ck_campaign_running_since check ((running_since is not null) = (state = 'running')),
    constraint ck_campaign_fork check ((forked_from_id is null) = (forked_from_generation is null)),
    constraint ck_campaign_dimension check (dimension > 0),
    constraint ck_campaign_max_attempts check (max_attempts > 0),
    constraint ck_campaign_episodes check (episodes_reserved between 0 and episode_budget),
    constraint ck_campaign_tokens check (tokens_charged + tokens_reserved - tokens_overrun <= token_budget),
    constraint ck_campaign_usd check (usd_charged + usd_reserved - usd_overrun <= usd_budget),
    constraint ck_campaign_tokens_positive check (tokens_charged >= 0 and tokens_reserved >= 0 and tokens_overrun >= 0),
    constraint ck_campaign_usd_positive check (usd_charged >= 0 and usd_reserved >= 0 and usd_overrun >= 0),
    constraint ck_campaign_calls_positive check (calls_started >= 0 and running_seconds >= 0),
    constraint fk_campaign_forked_from_id foreign key (forked_from_id) references campaign (id)
)
"""

PROBLEM = """
create table problem (
    id bigint generated always as identity constraint pk_problem primary key,
    campaign_id bigint not null,
    key text not null,
    split text not null,
    position integer not null,
    family text not null,
    question text not null,
    scorer text not null,
    answer text,
    scores jsonb,
    constraint uq_problem_campaign_id_key unique (campaign_id, key),
    constraint uq_problem_campaign_id_split_position unique (campaign_id, split, position),
    constraint ck_problem_split check (split in ('training', 'validation', 'heldout')),
    constraint ck_problem_scorer check (scorer in ('exact', 'numeric', 'literal', 'recorded')),
    constraint ck_problem_scores check ((scores is not null) = (scorer = 'recorded')),
    constraint ck_problem_answer check ((answer is not null) = (scorer <> 'recorded')),
    constraint ck_problem_position check (position >= 0),
    constraint fk_problem_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

GENERATION = """
create table generation (
    id bigint generated always as identity constraint pk_generation primary key,
    campaign_id bigint not null,
    number integer not null,
    kind text not null,
    state text not null,
    epoch bigint not null,
    mean bytea not null,
    sigma double precision not null,
    checksum text not null,
    fitness bytea,
    summary jsonb,
    opened_at timestamptz default now() not null,
    closed_at timestamptz,
    constraint uq_generation_campaign_id_number unique (campaign_id, number),
    constraint ck_generation_kind check (kind in ('training', 'validation', 'evaluation')),
    constraint ck_generation_state check (state in ('open', 'closed', 'cancelled')),
    constraint ck_generation_number check (number >= 0),
    constraint ck_generation_mean check (octet_length(mean) > 0 and octet_length(mean) % 8 = 0),
    constraint ck_generation_sigma check (sigma > 0),
    constraint ck_generation_fitness check ((fitness is not null) = (kind = 'training' and state = 'closed')),
    constraint ck_generation_fitness_length check (octet_length(fitness) > 0 and octet_length(fitness) % 8 = 0),
    constraint ck_generation_closed check ((closed_at is null) = (state = 'open')),
    constraint ck_generation_summary check ((summary is not null) = (state = 'closed')),
    constraint fk_generation_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

CANDIDATE = """
create table candidate (
    id bigint generated always as identity constraint pk_candidate primary key,
    generation_id bigint not null,
    kind text not null,
    index integer not null,
    theta bytea,
    fitness double precision,
    rank integer,
    constraint uq_candidate_generation_id_kind_index unique (generation_id, kind, index),
    constraint ck_candidate_kind check (kind in ('sample', 'mean', 'single', 'random')),
    constraint ck_candidate_index check (index >= 0),
    constraint ck_candidate_theta check (octet_length(theta) > 0 and octet_length(theta) % 4 = 0),
    constraint ck_candidate_vectorless check (theta is null or kind in ('sample', 'mean')),
    constraint ck_candidate_rank check (rank >= 0),
    constraint fk_candidate_generation_id foreign key (generation_id) references generation (id)
)
"""

EPISODE = """
create table episode (
    id bigint generated always as identity constraint pk_episode primary key,
    campaign_id bigint not null,
    generation_id bigint not null,
    candidate_id bigint not null,
    purpose text not null,
    replicate integer not null,
    problem_id bigint not null,
    seed bigint not null,
    state text not null,
    attempt integer default 0 not null,
    attempt_floor integer default 0 not null,
    available_at timestamptz default now() not null,
    published_at timestamptz,
    lease_owner text,
    lease_expires_at timestamptz,
    reward double precision,
    termination text,
    failure_kind text,
    failure_detail text,
    turns integer,
    scored_at timestamptz,
    constraint uq_episode_candidate_id_purpose_replicate unique (candidate_id, purpose, replicate),
    constraint ck_episode_purpose check (purpose in ('training', 'validation', 'evaluation')),
    constraint ck_episode_state check (state in ('pending', 'queued', 'running', 'scored', 'failed', 'cancelled')),
    constraint ck_episode_replicate check (replicate >= 0),
    constraint ck_episode_attempt check (attempt >= 0 and attempt_floor between 0 and attempt),
    constraint ck_episode_lease check (
        (state = 'running') = (lease_owner is not null and lease_expires_at is not null)
    ),
    constraint ck_episode_lease_pair check ((lease_owner is null) = (lease_expires_at is null)),
    constraint ck_episode_reward check ((state = 'scored') = (reward is not null)),
    constraint ck_episode_reward_range check (reward between 0 and 1),
    constraint ck_episode_scored check (
        (state = 'scored') = (scored_at is not null and termination is not null and turns is not null)
    ),
    constraint ck_episode_failure check ((state = 'failed') = (failure_kind is not null)),
    constraint fk_episode_campaign_id foreign key (campaign_id) references campaign (id),
    constraint fk_episode_generation_id foreign key (generation_id) references generation (id),
    constraint fk_episode_candidate_id foreign key (candidate_id) references candidate (id),
    constraint fk_episode_problem_id foreign key (problem_id) references problem (id)
)
"""

ATTEMPT = """
create table attempt (
    episode_id bigint not null,
    number integer not null,
    worker text not null,
    outcome text not null,
    started_at timestamptz default now() not null,
    ended_at timestamptz,
    error_kind text,
    error_detail text,
    constraint pk_attempt primary key (episode_id, number),
    constraint ck_attempt_outcome check (outcome in ('running', 'done', 'failed', 'returned', 'lost')),
    constraint ck_attempt_number check (number > 0),
    constraint ck_attempt_ended check ((ended_at is null) = (outcome = 'running')),
    constraint ck_attempt_error check (error_kind is null or outcome not in ('running', 'done')),
    constraint fk_attempt_episode_id foreign key (episode_id) references episode (id)
)
"""

TURN = """
create table turn (
    episode_id bigint not null,
    attempt integer not null,
    number integer not null,
    agent integer not null,
    role text not null,
    role_source text not null,
    verdict text,
    text text not null,
    output text not null,
    answer text,
    logits real[],
    constraint pk_turn primary key (episode_id, attempt, number),
    constraint fk_turn_episode_id foreign key (episode_id, attempt) references attempt (episode_id, number),
    constraint ck_turn_role check (role in ('worker', 'thinker', 'verifier')),
    constraint ck_turn_role_source check (role_source in ('policy', 'thinker', 'fixed')),
    constraint ck_turn_verdict check (verdict in ('accept', 'revise', 'unclear')),
    constraint ck_turn_number check (number > 0),
    constraint ck_turn_agent check (agent >= 0),
    constraint ck_turn_verdict_role check (verdict is null or role = 'verifier')
)
"""

LLM_CALL = """
create table llm_call (
    id bigint generated always as identity constraint pk_llm_call primary key,
    campaign_id bigint not null,
    episode_id bigint not null,
    attempt integer not null,
    turn integer not null,
    try integer not null,
    agent integer not null,
    model text not null,
    role text not null,
    state text not null,
    reserved_usd numeric(20, 12) not null,
    reserved_tokens bigint not null,
    prompt_tokens bigint,
    completion_tokens bigint,
    estimated boolean default false not null,
    cost_usd numeric(20, 12),
    latency_seconds double precision,
    finish_reason text,
    error_kind text,
    cache_hit boolean default false not null,
    opened_at timestamptz default now() not null,
    settled_at timestamptz,
    constraint uq_llm_call_episode_id_attempt_turn_try unique (episode_id, attempt, turn, try),
    constraint fk_llm_call_episode_id foreign key (episode_id, attempt) references attempt (episode_id, number),
    constraint ck_llm_call_state check (state in ('open', 'settled', 'unknown')),
    constraint ck_llm_call_role check (role in ('worker', 'thinker', 'verifier')),
    constraint ck_llm_call_numbers check (turn > 0 and try > 0 and agent >= 0),
    constraint ck_llm_call_reserved check (reserved_usd >= 0 and reserved_tokens >= 0),
    constraint ck_llm_call_used check (
        prompt_tokens >= 0 and completion_tokens >= 0 and cost_usd >= 0 and latency_seconds >= 0
    ),
    constraint ck_llm_call_settled check ((state = 'open') = (settled_at is null)),
    constraint ck_llm_call_cost check ((state = 'open') = (cost_usd is null)),
    constraint fk_llm_call_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

LEDGER_ENTRY = """
create table ledger_entry (
    id bigint generated always as identity constraint pk_ledger_entry primary key,
    llm_call_id bigint not null,
    campaign_id bigint not null,
    kind text not null,
    tokens bigint not null,
    usd numeric(20, 12) not null,
    at timestamptz default now() not null,
    constraint uq_ledger_entry_llm_call_id_kind unique (llm_call_id, kind),
    constraint ck_ledger_entry_kind check (kind in ('reservation', 'charge', 'release')),
    constraint ck_ledger_entry_amount check (tokens >= 0 and usd >= 0),
    constraint fk_ledger_entry_llm_call_id foreign key (llm_call_id) references llm_call (id),
    constraint fk_ledger_entry_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

EVENT = """
create table event (
    id bigint generated always as identity constraint pk_event primary key,
    campaign_id bigint not null,
    type text not null,
    payload jsonb not null,
    created_at timestamptz default now() not null,
    processed_at timestamptz,
    failures integer default 0 not null,
    next_attempt_at timestamptz default now() not null,
    error text,
    constraint ck_event_failures check (failures >= 0),
    constraint fk_event_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

COORDINATOR = """
create table coordinator (
    id bigint generated always as identity constraint pk_coordinator primary key,
    campaign_id bigint not null,
    name text not null,
    generation integer not null,
    theta bytea not null,
    layout jsonb not null,
    encoder jsonb not null,
    pool jsonb not null,
    validation double precision,
    released_at timestamptz default now() not null,
    constraint uq_coordinator_name unique (name),
    constraint uq_coordinator_campaign_id_generation unique (campaign_id, generation),
    constraint ck_coordinator_theta check (octet_length(theta) > 0 and octet_length(theta) % 4 = 0),
    constraint ck_coordinator_generation check (generation >= 0),
    constraint fk_coordinator_campaign_id foreign key (campaign_id) references campaign (id)
)
"""

INDEXES = (
    "create unique index uq_generation_open on generation (campaign_id) where state = 'open'",
    "create index ix_episode_generation_id_state on episode (generation_id, state)",
    """
create index ix_episode_unfinished on episode (campaign_id, state, id)
where state in ('pending', 'queued', 'running')
""",
    "create unique index uq_attempt_done on attempt (episode_id) where outcome = 'done'",
    "create index ix_llm_call_campaign_id on llm_call (campaign_id)",
    "create index ix_llm_call_open on llm_call (episode_id, attempt) where state = 'open'",
    "create index ix_ledger_entry_campaign_id on ledger_entry (campaign_id)",
    "create index ix_event_campaign_id_id on event (campaign_id, id)",
    "create index ix_event_unprocessed on event (id) where processed_at is null",
)

GUARD = """
create function trinity_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only: % refused', tg_table_name, lower(tg_op)
        using errcode = 'restrict_violation';
end
$$
"""

GUARDED = ("ledger_entry", "coordinator")
TABLES = {
    "leader": LEADER,
    "campaign": CAMPAIGN,
    "problem": PROBLEM,
    "generation": GENERATION,
    "candidate": CANDIDATE,
    "episode": EPISODE,
    "attempt": ATTEMPT,
    "turn": TURN,
    "llm_call": LLM_CALL,
    "ledger_entry": LEDGER_ENTRY,
    "event": EVENT,
    "coordinator": COORDINATOR,
}


def upgrade() -> None:
    for table in TABLES.values():
        op.execute(table)
    for index in INDEXES:
        op.execute(index)
    op.execute("insert into leader (id, epoch) values (1, 0)")
    op.execute(GUARD)
    for table in GUARDED:
        op.execute(
            f"create trigger {table}_no_change before update or delete on {table} "
            "for each row execute function trinity_refuse_change()"
        )
        op.execute(
            f"create trigger {table}_no_truncate before truncate on {table} "
            "for each statement execute function trinity_refuse_change()"
        )


def downgrade() -> None:
    for name in reversed(TABLES):
        op.execute(f"drop table {name}")
    op.execute("drop function trinity_refuse_change()")
