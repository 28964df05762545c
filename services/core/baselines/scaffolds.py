"""One place that knows every scaffold."""

from __future__ import annotations

from services.core.baselines.llm_coordinator import LlmCoordinator
from services.core.baselines.majority import Majority
from services.core.baselines.mixture import Mixture
from services.core.baselines.scaffold import Same, Scaffold
from services.core.baselines.self_reflection import SelfReflection
from services.core.baselines.single_turn import LongAnswer, RandomWorker
from services.core.baselines.smoothie import Embed, Smoothie
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.protocol.evidence import Examine
from services.core.rivals import RivalKind, RivalSpec

# These name the one model that acts or chooses; all others name none.
NAMES_MODEL = frozenset({RivalKind.LONG, RivalKind.MAJORITY, RivalKind.SELF_REFLECTION, RivalKind.LLM_COORDINATOR})


def scaffold_of(
    spec: RivalSpec,
    campaign: Campaign,
    same: Same,
    *,
    embed: Embed | None = None,
    examine: Examine = lambda work: None,
) -> Scaffold:
    """Return what plays a rival's episodes; the models that take part are those the coordinator may choose.

    Args:
        spec: the rival.
        campaign: pool and protocol.
        same: the question's own comparison of answers.
        embed: embeds replies, for Smoothie; None goes by answers.
        examine: finds evidence on a Worker's turn, for conversations with a Verifier.

    Raises:
        SpecError: the method needs a model that the specification does not name, or the pool does not have; or it is
            no scaffold.
    """
    agents = Layout.of_campaign(campaign).agents
    match spec.kind:
        case RivalKind.RANDOM_WORKER:
            return RandomWorker(agents)
        case RivalKind.LONG:
            return LongAnswer(_agent(spec, campaign), spec.samples)
        case RivalKind.MAJORITY:
            return Majority(_agent(spec, campaign), spec.samples, same)
        case RivalKind.SELF_REFLECTION:
            return SelfReflection(_agent(spec, campaign), spec.samples)
        case RivalKind.MIXTURE:
            return Mixture(agents)
        case RivalKind.SMOOTHIE:
            return Smoothie(agents, same, embed)
        case RivalKind.LLM_COORDINATOR:
            names = {agent: campaign.pool[agent].name for agent in agents}
            descriptions = {model.name: model.description for model in campaign.pool}
            return LlmCoordinator(_agent(spec, campaign), names, descriptions, examine)
        case _:
            raise SpecError("evaluation.rivals.kind", spec.kind.value, "a scaffold; routers are fitted to labels")


def _agent(spec: RivalSpec, campaign: Campaign) -> int:
    names = [model.name for model in campaign.pool]
    if spec.model not in names:
        raise SpecError("evaluation.rivals.model", spec.model, f"a name of the pool: {', '.join(names)}")
    return names.index(spec.model)
