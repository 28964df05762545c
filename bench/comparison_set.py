"""The two sets of recorded outcomes: campaign file, problems, and models that repeat what they once answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from services.benchmarks.registry import load as load_problems
from services.benchmarks.splits import by_seed
from services.config import campaign as campaign_file
from services.config import pool_file
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.local_pool import ReplayPool
from services.core.problem import Problem, Split
from services.core.problem_source import JsonlProblems, SeededSplit
from services.core.protocol.roles import Role
from services.encoder.catalogue import architecture
from services.pool.local.recordings import Recorded, read_index
from services.pool.local.replay import Replay

CAMPAIGNS = Path("infra/campaigns")
POOLS = Path("infra/pools")
SETS = ("llmrouter", "zeroeval")


@dataclass(frozen=True)
class RecordedSet:
    """One set.

    Attributes:
        name: of campaign and pool file.
        campaign: as its file says, without Thinkers: hardly any of their words are recorded.
        problems: all of them, in a row any stretch of which holds the families in proportion.
        split: the sizes of the campaign file.
        pool: what is recorded, answers alone: reasoning is there for some questions only.
    """

    name: str
    campaign: Campaign
    problems: tuple[Problem, ...]
    split: SeededSplit
    pool: ReplayPool

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.pool)

    @cached_property
    def index(self) -> dict[str, Recorded]:
        """What is recorded, by question."""
        return read_index(self.pool.recordings, self.pool.models)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.campaign.pool)

    @property
    def served(self) -> tuple[str, ...]:
        """The models as the recordings spell them, in the campaign's order."""
        return tuple(model.litellm_model.partition("/")[2] for model in self.campaign.pool)

    def dealt(self, seed: int, problems: Sequence[Problem]) -> dict[Split, list[Problem]]:
        """Return the problems in three splits; with fewer problems than the file counts on, in the same shares."""
        share = min(1.0, len(problems) / (self.split.training + self.split.validation + self.split.heldout))
        sizes = {one.value: int(getattr(self.split, one.value) * share) for one in Split}
        return by_seed(SeededSplit(seed, **sizes), problems)


def read(name: str, data: Path) -> RecordedSet:
    """Read a set; ``data`` is the folder above ``replay``.

    Raises:
        SpecError: a file is missing or wrong.
    """
    variables = {"TRINITY_DATA_DIR": str(data)}
    file = campaign_file.load(CAMPAIGNS / f"{name}.yaml", variables)
    campaign = campaign_file.resolve(file, architecture(file.encoder.model))
    roles = tuple(role for role in campaign.protocol.roles if role is not Role.THINKER)
    campaign = replace(campaign, protocol=replace(campaign.protocol, roles=roles))
    source = campaign_file.problem_source(file)
    pool = pool_file.load(POOLS / f"{name}.yaml", variables)
    if not isinstance(source, JsonlProblems) or not isinstance(source.split, SeededSplit):
        raise SpecError("problems.split", source, "sizes of the three splits")
    if not isinstance(pool, ReplayPool):
        raise SpecError("kind", pool, "a replay pool")
    whole = replace(source, split=SeededSplit(source.split.seed, 1.0, 0, 0))
    problems = load_problems(whole, [model.name for model in campaign.pool])[Split.TRAINING]
    pool = replace(pool, recordings=tuple(replace(one, texts=()) for one in pool.recordings))
    return RecordedSet(name, campaign, tuple(problems), source.split, pool)
