"""Ways to break a database by hand: the invariant, what is wrong, and the statements that make it so.

They act on the campaigns of ``tests.support.story``.
"""

from __future__ import annotations

OF = "(select id from campaign where name = '{}')"
DONE, FORK, CANCELLED = (OF.format(name) for name in ("done", "fork", "cancelled"))
GENERATION = "(select id from generation where campaign_id = {} and number = {})"
OPEN = f"(select id from generation where campaign_id = {FORK} and state = 'open')"
ONE = "id = (select min(id) from episode where {})"
RUNNING = f"campaign_id = {FORK} and state = 'running'"
QUEUED = f"campaign_id = {FORK} and state = 'queued'"
PENDING = ONE.format(f"campaign_id = {FORK} and state = 'pending'")
SCORED = ONE.format(f"generation_id = {GENERATION.format(DONE, 1)} and state = 'scored'")
REPEATED = f"(select id from episode where campaign_id = {DONE} and attempt = 2 order by id limit 1)"
UNKNOWN = f"(select min(id) from llm_call where campaign_id = {DONE} and state = 'unknown')"
UNGUARDED = "alter table {} disable trigger all"
FLIPPED = "set_byte({0}, 3, 255 - get_byte({0}, 3))"

BREAKS = [
    ("I1", "a reward changed afterwards", f"update episode set reward = 1 - reward where {SCORED}"),
    (
        "I1",
        "a candidate's fitness is not its rewards' mean",
        (
            f"update candidate set fitness = fitness + 1e-9 where generation_id = {GENERATION.format(DONE, 0)}"
            " and kind = 'sample' and index = 0"
        ),
    ),
    (
        "I1",
        "a policy of the evaluation was scored otherwise",
        f"update candidate set fitness = 0.9 where generation_id = {GENERATION.format(DONE, 3)} and kind = 'random'",
    ),
    (
        "I1",
        "a generation closed over a failed episode",
        (
            f"delete from turn where episode_id = (select id from episode where {SCORED});"
            f"update attempt set outcome = 'failed' where outcome = 'done' and episode_id ="
            f" (select id from episode where {SCORED});"
            "update episode set state = 'failed', failure_kind = 'X', reward = null, outcome = null, scored_at = null,"
            " turns = null"
            f" where {SCORED}"
        ),
    ),
    (
        "I1",
        "a replicate too many",
        (
            "with more as (insert into episode (campaign_id, generation_id, candidate_id, purpose, replicate,"
            " problem_id, seed, state, attempt, reward, termination, turns, scored_at)"
            " select campaign_id, generation_id, candidate_id, purpose, 3, problem_id, seed, state, 1, reward,"
            " termination, 0, now() from episode"
            f" where {SCORED} returning id) insert into attempt (episode_id, number, worker, outcome, ended_at)"
            " select id, 1, 'w1', 'done', now() from more;"
            f"update campaign set episodes_reserved = episodes_reserved + 1 where id = {DONE}"
        ),
    ),
    (
        "I2",
        "two attempts done",
        (
            "drop index uq_attempt_done;"
            f"update attempt set outcome = 'done', error_kind = null where number = 1 and episode_id = {REPEATED}"
        ),
    ),
    (
        "I2",
        "scored without an attempt that is done",
        f"update attempt set outcome = 'lost' where outcome = 'done' and episode_id = {REPEATED}",
    ),
    ("I2", "a gap in the attempts", f"update episode set attempt = 3, attempt_floor = 1 where id = {REPEATED}"),
    ("I2", "turns of an attempt that did not count", f"update turn set attempt = 1 where episode_id = {REPEATED}"),
    (
        "I2",
        "a turn for which no model was asked",
        f"update llm_call set turn = 5 where attempt = 2 and episode_id = {REPEATED}",
    ),
    (
        "I2",
        "a turn of another agent than was asked",
        f"update turn set agent = agent + 1 where episode_id = {REPEATED}",
    ),
    (
        "I2",
        "an attempt runs that nobody leased",
        (
            f"update attempt set outcome = 'running', ended_at = null, error_kind = null, error_detail = null"
            f" where number = 1 and episode_id = {REPEATED}"
        ),
    ),
    ("I3", "a total is off by one token", f"update campaign set tokens_charged = tokens_charged + 1 where id = {DONE}"),
    (
        "I3",
        "a total is off by the smallest amount of money",
        f"update campaign set usd_charged = usd_charged + 0.000000000001 where id = {FORK}",
    ),
    ("I3", "a call was not counted", f"update campaign set calls_started = calls_started - 1 where id = {DONE}"),
    (
        "I3",
        "episodes reserved twice",
        f"update campaign set episodes_reserved = episodes_reserved + 14 where id = {DONE}",
    ),
    (
        "I3",
        "a charge is missing in the ledger",
        (
            f"{UNGUARDED.format('ledger_entry')};"
            f"delete from ledger_entry where kind = 'charge' and llm_call_id = {UNKNOWN}"
        ),
    ),
    (
        "I3",
        "an unknown call was booked at nothing, consistently",
        (
            f"{UNGUARDED.format('ledger_entry')};"
            f"update ledger_entry set usd = 0 where kind = 'charge' and llm_call_id = {UNKNOWN};"
            f"update campaign set usd_charged = usd_charged - (select cost_usd from llm_call where id = {UNKNOWN})"
            f" where id = {DONE};"
            f"update llm_call set cost_usd = 0 where id = {UNKNOWN}"
        ),
    ),
    (
        "I4",
        "more tokens than the limit",
        (
            "alter table campaign drop constraint ck_campaign_tokens;"
            f"update campaign set token_budget = tokens_charged - 1 where id = {DONE}"
        ),
    ),
    (
        "I4",
        "more money held on the way than the limit",
        f"update campaign set usd_budget = usd_charged where id = {DONE}",
    ),
    (
        "I4",
        "more calls than the limit",
        (
            "alter table campaign drop constraint ck_campaign_calls;"
            f"update campaign set call_budget = calls_started - 1 where id = {FORK}"
        ),
    ),
    (
        "I4",
        "more episodes than the limit",
        (
            "alter table campaign drop constraint ck_campaign_episodes;"
            f"update campaign set episode_budget = episodes_reserved - 1 where id = {FORK}"
        ),
    ),
    (
        "I4",
        "a call after the wall clock's limit, of a running campaign",
        f"update campaign set wall_clock_budget_seconds = 0.001 where id = {FORK}",
    ),
    (
        "I4",
        "a call after the wall clock's limit, of one with pauses",
        f"update campaign set wall_clock_budget_seconds = 15, running_seconds = running_seconds + 60 where id = {DONE}",
    ),
    (
        "I5",
        "a call of an attempt that had ended",
        (
            "update llm_call l set opened_at = a.ended_at + interval '1 second' from attempt a where a.episode_id ="
            f" l.episode_id and a.number = l.attempt and l.id = {UNKNOWN}"
        ),
    ),
    (
        "I5",
        "a call of a campaign that had ended",
        f"update campaign set ended_at = started_at where id = {CANCELLED}",
    ),
    (
        "I6",
        "another step size",
        f"update generation set sigma = sigma * 1.0000000000000003 where id = {GENERATION.format(DONE, 1)}",
    ),
    (
        "I6",
        "another mean",
        f"update generation set mean = {FLIPPED.format('mean')} where id = {GENERATION.format(DONE, 1)}",
    ),
    (
        "I6",
        "another mean validated at the end",
        f"update generation set mean = {FLIPPED.format('mean')} where id = {GENERATION.format(DONE, 2)}",
    ),
    ("I6", "another checksum", f"update generation set checksum = 'c' where id = {GENERATION.format(FORK, 0)}"),
    ("I6", "a fork of nowhere", f"update campaign set forked_from_generation = 99 where id = {FORK}"),
    (
        "I6",
        "another coordinator",
        f"{UNGUARDED.format('coordinator')}; update coordinator set theta = {FLIPPED.format('theta')}",
    ),
    ("I6", "a specification that nobody can read", f"update campaign set spec = '{{}}' where id = {DONE}"),
    (
        "I7",
        "a lease that nobody takes back",
        f"update episode set lease_expires_at = now() - interval '11 s' where {RUNNING}",
    ),
    (
        "I8",
        "an event that nobody acts on",
        (
            "update event set processed_at = null, created_at = now() - interval '2 min', next_attempt_at = now() -"
            " interval '61 s' where id = (select max(id) from event)"
        ),
    ),
    (
        "I8",
        "no generation after the last one",
        (
            "update generation set opened_at = opened_at - interval '1 h', closed_at = closed_at - interval '1 h'"
            f" where campaign_id = {DONE};"
            "update campaign set state = 'running', stop_reason = null, ended_at = null,"
            f" running_since = now() - interval '61 s' where id = {DONE}"
        ),
    ),
    (
        "I8",
        "a finished generation that nobody closes",
        (
            f"update attempt set outcome = 'failed', ended_at = now() where outcome = 'running';"
            "update episode set state = 'failed', failure_kind = 'X', lease_owner = null, lease_expires_at = null where"
            f" generation_id = {OPEN} and state <> 'scored';"
            f"update episode set scored_at = scored_at - interval '2 min' where campaign_id = {FORK};"
            f"update generation set opened_at = opened_at - interval '2 min' where campaign_id = {FORK};"
            f"update campaign set running_since = running_since - interval '2 min' where id = {FORK}"
        ),
    ),
    ("I8", "a message lost for ever", f"update episode set published_at = now() - interval '1 h' where {QUEUED}"),
    (
        "I8",
        "nothing is sent although nothing is under way",
        (
            "update attempt set outcome = 'returned', ended_at = now() where outcome = 'running';"
            f"update episode set state = 'pending', lease_owner = null, lease_expires_at = null where {RUNNING};"
            f"update episode set state = 'pending' where {QUEUED};"
            f"update episode set available_at = now() - interval '2 min' where campaign_id = {FORK};"
            f"update campaign set running_since = running_since - interval '2 min' where id = {FORK}"
        ),
    ),
    ("I9", "a generation of a leader that never was", "update leader set epoch = 1"),
    ("I9", "an old leader wrote again", f"update generation set epoch = 0 where id = {GENERATION.format(DONE, 1)}"),
    ("I10", "a gap in the numbers", f"update generation set number = 4 where id = {GENERATION.format(DONE, 3)}"),
    (
        "I10",
        "opened before its predecessor closed",
        f"update generation set opened_at = opened_at - interval '1 h' where id = {GENERATION.format(DONE, 1)}",
    ),
    (
        "I10",
        "opened twice",
        (
            "insert into event (campaign_id, type, payload, processed_at)"
            " select campaign_id, type, payload, processed_at from event where type = 'generation.opened'"
            " and payload ->> 'generation' = '1' limit 1"
        ),
    ),
    (
        "I10",
        "an unfinished episode of a cancelled campaign",
        f"update episode set state = 'pending' where campaign_id = {CANCELLED} and state = 'cancelled' and attempt = 1",
    ),
    (
        "I10",
        "an open generation of a cancelled campaign",
        f"update generation set state = 'open', closed_at = null where campaign_id = {CANCELLED}",
    ),
    (
        "I10",
        "a completed campaign without its coordinator",
        f"{UNGUARDED.format('coordinator')}; delete from coordinator",
    ),
    (
        "I11",
        "an episode tried for ever",
        (
            f"update episode set attempt_floor = 0 where id = {REPEATED};"
            f"update campaign set max_attempts = 1 where id = {DONE}"
        ),
    ),
    ("I12", "a retry put off too far", f"update episode set available_at = now() + interval '2 days' where {PENDING}"),
    ("I12", "queued but never sent", f"update episode set published_at = null where {QUEUED}"),
    (
        "I12",
        "a lease without an end",
        f"update episode set lease_expires_at = now() + interval '2 days' where {RUNNING}",
    ),
    ("I14", "another seed", f"update episode set seed = seed + 1 where {PENDING}"),
    (
        "I14",
        "another problem",
        f"update episode set problem_id = (select max(id) from problem where campaign_id = {FORK}) where {PENDING}",
    ),
    (
        "I14",
        "another vector",
        (
            f"update candidate set theta = {FLIPPED.format('theta')}"
            f" where kind = 'sample' and index = 2 and generation_id = {OPEN}"
        ),
    ),
    ("I14", "a vector is gone", f"update candidate set theta = null where kind = 'mean' and generation_id = {OPEN}"),
]
