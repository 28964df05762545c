"""The replies that a campaign's scored episodes rest on, call by call, for playing the campaign back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, text

from services.core.ids import CampaignId
from services.core.protocol.asked import call_label
from services.core.states import CandidateKind, Purpose
from services.storage.text_codec import unescape

PAGE = 500
# Why a turn that was refused has no text.
SAID_NOTHING = {"ContentRefused": "content_filter"}

# Of the tries of a turn the last one is what the transcript has, be it that nothing was said. A judge's words stand in
# no transcript.
CALLS = text("""
select l.id, l.model, l.asked, l.turn, l.finish_reason, l.error_kind,
    coalesce(l.kept_prompt_tokens, l.prompt_tokens) as prompt_tokens,
    coalesce(l.kept_completion_tokens, l.completion_tokens) as completion_tokens,
    g.number, c.kind, c.index as place_in_kind, e.purpose, e.replicate, coalesce(t.output, a.output) as output
from llm_call l
join episode e on e.id = l.episode_id and e.attempt = l.attempt and e.state = 'scored'
join candidate c on c.id = e.candidate_id
join generation g on g.id = e.generation_id
left join turn t on t.episode_id = l.episode_id and t.attempt = l.attempt and t.number = l.turn and t.role = l.role
left join answer a on a.key = l.answer_key
where l.campaign_id = :campaign and l.id > :after and not exists (
    select from llm_call later where later.episode_id = l.episode_id and later.attempt = l.attempt
        and later.turn = l.turn and later.try > l.try)
order by l.id limit :page
""")


@dataclass(frozen=True)
class RecordedCall:
    """One call and what it was answered.

    Attributes:
        model: the campaign's name for it.
        asked: digest of the messages; None for calls of earlier versions, which did not note it.
        call: its label.
        output: None when the reply is kept nowhere.
        prompt_tokens: with ``completion_tokens`` what the reply took, when it was paid for.
    """

    model: str
    asked: str | None
    call: str
    output: str | None
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


def calls(conn: Connection, campaign_id: CampaignId) -> Iterator[RecordedCall]:
    """Yield the answered calls of scored episodes, a page at a time."""
    after = 0
    while page := conn.execute(CALLS, {"campaign": campaign_id, "after": after, "page": PAGE}).all():
        for row in page:
            kind, purpose = CandidateKind(row.kind).value, Purpose(row.purpose).value
            yield RecordedCall(
                unescape(row.model),
                row.asked,
                call_label(row.number, kind, row.place_in_kind, purpose, row.replicate, row.turn),
                None if row.output is None else unescape(row.output),
                unescape(row.finish_reason or SAID_NOTHING.get(row.error_kind, "stop")),
                row.prompt_tokens or 0,
                row.completion_tokens or 0,
            )
        after = page[-1].id
