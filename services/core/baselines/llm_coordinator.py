"""A prompted pool model as the coordinator: it picks agent and role at every turn (paper, appendix A.7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from services.core.baselines.coordinator_prompt import coordinator_messages, read_choice
from services.core.baselines.scaffold import ScaffoldCall
from services.core.campaign import ProtocolSpec, VerifierWithoutAnswer
from services.core.protocol.episode import EpisodeResult, run_episode
from services.core.protocol.evidence import Examine
from services.core.protocol.ports import Decision
from services.core.protocol.roles import CallRole, Role
from services.core.protocol.transcript import Transcript

# Coordinator's calls are numbered from here: beyond every turn, of which a campaign may have 100, and the ratings of a
# judge, which are numbered after the last turn.
FIRST_COORDINATOR_CALL = 1001


@dataclass
class PromptedPolicy:
    """Asks a model for every decision of one episode.

    Attributes:
        coordinator: pool index of the model that chooses.
        agents: pool index -> name of those that may be chosen.
        descriptions: name -> what the model is told of it.
        call: asks one pool model.
        protocol: roles and turn limit.
        asked: decisions so far, which the conversation does not tell where not all turns are shown.
    """

    coordinator: int
    agents: Mapping[int, str]
    descriptions: Mapping[str, str]
    call: ScaffoldCall
    protocol: ProtocolSpec
    asked: int = 0

    def decide(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        """Return what the model chose; a reply without a possible choice is a draw among all possible ones."""
        roles = self.protocol.roles
        described = {name: self.descriptions.get(name, "") for name in self.agents.values()}
        messages = coordinator_messages(transcript, described, roles, self.protocol.max_turns - self.asked)
        turn = FIRST_COORDINATOR_CALL + self.asked
        self.asked += 1
        reply = self.call(turn=turn, agent=self.coordinator, role=CallRole.COORDINATOR, messages=messages)
        chosen = read_choice(reply.text, list(described), roles)
        if chosen is None:
            return self._drawn(transcript, rng)
        name, role = chosen
        return Decision(next(agent for agent, other in self.agents.items() if other == name), role)

    def _drawn(self, transcript: Transcript, rng: np.random.Generator) -> Decision:
        legal = [role for role in self.protocol.roles if role is not Role.VERIFIER or self._may_verify(transcript)]
        agents = list(self.agents)
        agent = agents[int(rng.integers(len(agents)))]
        return Decision(agent, legal[int(rng.integers(len(legal)))], drawn=True)

    def _may_verify(self, transcript: Transcript) -> bool:
        forced = self.protocol.verifier_without_answer is VerifierWithoutAnswer.FORCE_WORKER
        return not forced or transcript.latest_work is not None


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

    def play(
        self,
        question: str,
        call: ScaffoldCall,
        protocol: ProtocolSpec,
        pool_size: int,
        rng: np.random.Generator,
        check: Callable[[], None],
    ) -> EpisodeResult:
        policy = PromptedPolicy(self.coordinator, self.agents, self.descriptions, call, protocol)
        result = run_episode(question, policy, call, protocol, pool_size, rng, check=check, examine=self.examine)
        return replace(result, calls=result.calls + policy.asked)
