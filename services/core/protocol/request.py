"""Reading the pool models' messages back, for programs that stand in for a model (simulated and replay pools)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.core.protocol.ports import Message
from services.core.protocol.prompts import OPENINGS, PARAGRAPH
from services.core.protocol.quoting import unquote
from services.core.protocol.roles import Role
from services.core.protocol.verdict import Verdict

_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_NOTE = re.compile(
    r'\n<note turn="([0-9]+)" role="([a-z]+)"(?: verdict="([a-z]+)")?>\n'
    r"(.*?)(?:\n<proposed>\n(.*?)\n</proposed>)?\n</note>",
    re.DOTALL,
)
_REVIEW = re.compile(r"\n<review>\n.*?\n</review>(?:\n<evidence>\n(.*?)\n</evidence>)?", re.DOTALL)


@dataclass(frozen=True)
class Note:
    """What one earlier turn left: see ``transcript.Item`` for the fields."""

    turn: int
    role: Role
    text: str
    answer: str | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Request:
    """What an agent is asked to do: its role, the question, the notes of the earlier turns, a machine's findings.

    ``added`` is the paragraph at the end of its instruction, empty in the tri-role protocol.
    """

    role: Role
    query: str
    notes: tuple[Note, ...] = ()
    evidence: str | None = None
    added: str = ""

    @property
    def worker_turns(self) -> int:
        return sum(note.role is Role.WORKER for note in self.notes)

    @property
    def answer_under_review(self) -> str | None:
        """The latest Worker's answer; None when it gave none or no Worker has spoken."""
        work = self._latest(Role.WORKER)
        return work.answer if work else None

    @property
    def plan(self) -> str | None:
        """The Thinker's advice, if a Thinker spoke just before."""
        return self.notes[-1].text if self.notes and self.notes[-1].role is Role.THINKER else None

    @property
    def last_verdict(self) -> Verdict | None:
        check = self._latest(Role.VERIFIER)
        return check.verdict if check else None

    @property
    def diagnosis(self) -> str | None:
        """The latest Verifier's reasons."""
        check = self._latest(Role.VERIFIER)
        return check.text if check else None

    def _latest(self, role: Role) -> Note | None:
        return next((note for note in reversed(self.notes) if note.role is role), None)


def read_request(messages: Sequence[Message]) -> Request:
    """Return what ``prompts.messages_for`` wrote into the messages.

    Raises:
        ValueError: the messages are not of this protocol; the text says what is missing.
    """
    if [message.role for message in messages] != ["system", "user"]:
        roles = ", ".join(message.role for message in messages) or "no messages"
        raise ValueError(f"got {roles}; wanted one system message that names the role and one user message")
    user = messages[1].content
    query, notes, end = read_conversation(user)
    review = _REVIEW.match(user, end)
    if (review.end() if review else end) != len(user):
        raise ValueError(f"the user message has something unknown after its notes, at character {end}")
    found = review.group(1) if review else None
    evidence = None if found is None else unquote(found)
    system = messages[0].content
    return Request(_read_role(system), query, tuple(notes), evidence, system.partition(PARAGRAPH)[2])


def read_conversation(user: str) -> tuple[str, list[Note], int]:
    """Return question, notes and where they end in a message that begins as ``prompts.conversation`` writes it.

    Raises:
        ValueError: it begins otherwise.
    """
    question = _QUESTION.match(user)
    if question is None:
        raise ValueError("the user message does not begin with a <question> block")
    notes, end = _read_notes(user, question.end())
    return unquote(question.group(1)), notes, end


def _read_role(system: str) -> Role:
    for role, opening in OPENINGS.items():
        if system.startswith(opening):
            return role
    raise ValueError(f"the system message begins with none of: {' '.join(OPENINGS.values())}")


def _read_notes(user: str, start: int) -> tuple[list[Note], int]:
    notes: list[Note] = []
    end = start
    while match := _NOTE.match(user, end):
        turn, role, verdict, text, answer = match.groups()
        notes.append(
            Note(
                turn=int(turn),
                role=Role(role),
                text=unquote(text),
                answer=None if answer is None else unquote(answer),
                verdict=None if verdict is None else Verdict(verdict),
            )
        )
        end = match.end()
    return notes, end
