"""The problems of a campaign, copied into it, so that a later change of a file changes no running campaign."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Row, text

from services.core.errors import SpecError
from services.core.ids import CampaignId
from services.core.problem import Case, Problem, ProgramForm, ProgramTests, ScorerKind, Split
from services.storage.text_codec import escape, escape_json, unescape, unescape_json

INSERT = text("""
insert into problem (campaign_id, key, split, position, family, question, scorer, answer, scores, checks)
select :campaign, p.key, :split, p.place - 1, p.family, p.question, p.scorer, p.answer, cast(p.scores as jsonb),
    cast(p.checks as jsonb)
from unnest(cast(:keys as text[]), cast(:families as text[]), cast(:questions as text[]), cast(:scorers as text[]),
    cast(:answers as text[]), cast(:scores as text[]), cast(:checks as text[]))
    with ordinality as p(key, family, question, scorer, answer, scores, checks, place)
order by p.place
""")

SELECT = "select id, key, family, question, scorer, answer, scores, checks from problem "
LOAD = text(SELECT + "where campaign_id = :campaign and split = :split order by position")
BY_ID = text(SELECT + "where id = :id")
SEEN = text("""
select count(*) from problem h where h.campaign_id = :campaign and h.split = 'heldout' and h.question in
    (select question from problem where campaign_id = :origin and split <> 'heldout')
""")


def insert(conn: Connection, campaign_id: CampaignId, by_split: Mapping[Split, Sequence[Problem]]) -> None:
    """Store the problems of each split in their order.

    Raises:
        SpecError: two of them have the same key.
    """
    seen: set[str] = set()
    for problem in chain.from_iterable(by_split.values()):
        if problem.key in seen:
            raise SpecError("problems", problem.key, "a key that no other problem of the campaign has")
        seen.add(problem.key)
    for split, members in by_split.items():
        conn.execute(INSERT, {"campaign": campaign_id, "split": split.value, **_columns(members)})


def seen(conn: Connection, campaign_id: CampaignId, origin: CampaignId) -> int:
    """Return how many held-out questions of a campaign were training or validation questions of another one."""
    return int(conn.execute(SEEN, {"campaign": campaign_id, "origin": origin}).scalar_one())


def load(conn: Connection, campaign_id: CampaignId, split: Split) -> list[tuple[int, Problem]]:
    """Return (problem id, problem) of one split in its order."""
    rows = conn.execute(LOAD, {"campaign": campaign_id, "split": split.value})
    return [(row.id, _problem(row)) for row in rows]


def by_id(conn: Connection, problem_id: int) -> Problem:
    """Return one problem.

    Raises:
        SpecError: there is none with that number.
    """
    row = conn.execute(BY_ID, {"id": problem_id}).one_or_none()
    if row is None:
        raise SpecError("problem", problem_id, "the number of a problem")
    return _problem(row)


def _columns(members: Sequence[Problem]) -> dict[str, list[str | None]]:
    recorded = [problem.scorer is ScorerKind.RECORDED for problem in members]
    return {
        "keys": [escape(problem.key) for problem in members],
        "families": [escape(problem.family) for problem in members],
        "questions": [escape(problem.question) for problem in members],
        "scorers": [problem.scorer.value for problem in members],
        "answers": [None if problem.answer is None else escape(problem.answer) for problem in members],
        "scores": [
            json.dumps(escape_json(dict(problem.scores)), allow_nan=False) if scored else None
            for problem, scored in zip(members, recorded, strict=True)
        ],
        "checks": [_checks(problem) for problem in members],
    }


def _checks(problem: Problem) -> str | None:
    """Return what an answer is checked by beyond the reference, as JSON."""
    if problem.program is not None:
        return json.dumps(escape_json({"program": asdict(problem.program)}), allow_nan=False)
    return json.dumps(escape_json({"choices": list(problem.choices)})) if problem.choices else None


def _program(stored: Mapping[str, Any]) -> ProgramTests:
    cases = {name: tuple(Case(**case) for case in stored[name]) for name in ("public", "hidden")}
    return ProgramTests(**{**stored, "form": ProgramForm(stored["form"]), **cases})


def _problem(row: Row[Any]) -> Problem:
    checks = unescape_json(row.checks or {})
    return Problem(
        key=unescape(row.key),
        family=unescape(row.family),
        question=unescape(row.question),
        scorer=ScorerKind(row.scorer),
        answer=None if row.answer is None else unescape(row.answer),
        scores=unescape_json(row.scores or {}),
        choices=tuple(checks.get("choices", ())),
        program=_program(checks["program"]) if "program" in checks else None,
    )
