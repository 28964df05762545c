"""A prompted pool model as the coordinator: it picks agent and role at every turn (paper, appendix A.7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from services.core.baselines.coordinator_prompt import coordinator_messages, read_choice
from services.core.baselines.scaffold import Episode
from services.core.campaign import VerifierWithoutAnswer
from services.core.protocol.episode import EpisodeResult
from services.core.protocol.evidence import Examine
from services.core.protocol.ports import Decision
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.transcript import Transcript

# Coordinator's calls are numbered from here: beyond every turn, of which a campaign may have 100, and the ratings of a
# judge, which are numbered after the last turn.
FIRST_COORDINATOR_CALL = 1001


@dataclass(frozen=True)
class LlmCoordinator:
    """The tri-role protocol as it is, with another policy.

    Attributes:
        coordinator: pool index of the model that chooses.
        agents: pool index -> name of those that may be chosen, itself among them.
        descriptions: name -> what the model is told of it.
        examine: finds evidence on a Worker's turn, as for every coordinator.
    """

    coordinator: int
    agents: Mapping[int, str]
    descriptions: Mapping[str, str]
    examine: Examine = lambda work: None

    def play(self, episode: Episode) -> EpisodeResult:
        policy = PromptedPolicy(self, episode)
        result = episode.converse(policy, self.examine)
        return replace(result, calls=result.calls + policy.asked)


@dataclass
class PromptedPolicy:
    """Asks a model for every decision of one episode.

    Attributes:
        chooser: the model that chooses, and among which.
        episode: whose call, roles and turn limit it has.
        asked: decisions so far, which the conversation does not tell where not all turns are shown.
    """

    chooser: LlmCoordinator
    episode: Episode
    asked: int = 0

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        """Return what the model chose; a reply without a possible choice is a draw among all possible ones."""
        protocol = self.episode.protocol
        described = {name: self.chooser.descriptions.get(name, "") for name in self.chooser.agents.values()}
        messages = coordinator_messages(transcript, described, protocol.roles, protocol.max_turns - self.asked)
        turn = FIRST_COORDINATOR_CALL + self.asked
        self.asked += 1
        reply = self.episode.call(
            turn=turn, agent=self.chooser.coordinator, role=CallRole.COORDINATOR, messages=messages
        )
        chosen = read_choice(reply.text, list(described), protocol.roles)
        if chosen is None:
            return self._drawn(transcript, rng)
        name, role = chosen
        return Decision(next(agent for agent, other in self.chooser.agents.items() if other == name), role)

    def _drawn(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        protocol = self.episode.protocol
        forced = protocol.verifier_without_answer is VerifierWithoutAnswer.FORCE_WORKER
        too_early = forced and transcript.latest_work is None
        legal = [role for role in protocol.roles if not (too_early and role is Role.VERIFIER)]
        agents = list(self.chooser.agents)
        agent = agents[int(rng.integers(len(agents)))]
        return Decision(agent, legal[int(rng.integers(len(legal)))], drawn=True)
