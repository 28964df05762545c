"""The final answers that a campaign's Workers gave, with what they were worth."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from services.core.ids import CampaignId
from services.storage.text_codec import unescape

# The latest Worker's answer is the one that was graded, except a rival's, which may choose among several; the same
# answer to a problem counts once.
GRADED = text("""
select distinct on (e.problem_id, w.answer) e.problem_id, w.answer, w.text, e.reward
from episode e
join candidate c on c.id = e.candidate_id and c.kind <> 'rival'
cross join lateral (
    select answer, text from turn where episode_id = e.id and attempt = e.attempt and role = 'worker'
    order by number desc limit 1) w
where e.campaign_id = :campaign and e.state = 'scored' and e.reward in (0, 1) and w.answer is not null
order by e.problem_id, w.answer, e.id
""")


@dataclass(frozen=True)
class GradedAnswer:
    """A final answer that was right or wrong, with the ideas that its Worker gave."""

    problem_id: int
    answer: str
    ideas: str
    right: bool


def graded(conn: Connection, campaign_id: CampaignId) -> list[GradedAnswer]:
    """Return every different answer to each problem that was worth 1 or 0, ordered by problem and answer."""
    rows = conn.execute(GRADED, {"campaign": campaign_id})
    return [GradedAnswer(row.problem_id, unescape(row.answer), unescape(row.text), row.reward == 1) for row in rows]
