"""A campaign as the rules see it: plain frozen records, every default already filled in.

The file people write, its checks and its defaults live in ``services.config``; nothing here knows YAML.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from services.core.learners import ReinforceSpec, SupervisedSpec, Targets
from services.core.ledger.price import Price
from services.core.protocol.roles import ROLE_ORDER, Role
from services.core.rivals import RivalSpec


@dataclass(frozen=True)
class ModelLimits:
    """What may be asked of a model at most, by all workers and campaigns together; None means unlimited.

    Attributes:
        requests_per_minute: requests begun in any minute.
        tokens_per_minute: prompt and completion tokens of the requests begun in any minute.
        max_concurrency: requests under way at once.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrency: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self != UNLIMITED


UNLIMITED = ModelLimits()


@dataclass(frozen=True)
class ModelSpec:
    """One pool model. Its place in the pool is its agent index (paper, Fig. 15).

    Attributes:
        name: the campaign's own name for it, unique in the pool.
        litellm_model: provider/model as litellm spells it, e.g. ``openai/gpt-5``.
        base_url: OpenAI-compatible address; None for the provider's own; ``local:NAME`` for one of our local pools.
        api_key_env: name of the environment variable with the key, or None. Never the key itself.
        price: USD per million tokens.
        options: extra decoding options passed on, e.g. ``{"reasoning_effort": "minimal"}``.
        context_window: tokens that prompt and reply must fit in together, or None when it is not known.
        limits: on the rate of calls.
        stream: ask for the reply piece by piece, so that of one that is cut it is known how much came.
        description: what a prompted coordinator is told of it; nobody else reads it.
    """

    name: str
    litellm_model: str
    price: Price
    base_url: str | None = None
    api_key_env: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    context_window: int | None = None
    limits: ModelLimits = ModelLimits()
    stream: bool = False
    description: str = ""


@dataclass(frozen=True)
class Matrix:
    """A weight matrix of the encoder whose singular values are searched (paper, section 3.1).

    Attributes:
        name: as the model names its modules, e.g. ``layers.26.self_attn.q_proj``, ``embed_tokens``, ``lm_head``.
        size: number of its singular values, the smaller of its two dimensions.
    """

    name: str
    size: int


class Norm(StrEnum):
    """What is done to the state's length before the head: nothing (the paper), or division by its root mean square."""

    NONE = "none"
    RMS = "rms"


@dataclass(frozen=True)
class EncoderSpec:
    """The small language model that reads the conversation.

    Attributes:
        model: ``smollm2-135m-instruct`` (bundled by hash), a hub name such as ``Qwen/Qwen3-0.6B``, or a local folder.
        revision: hub revision, or None.
        position: ``penultimate`` (index -2, the paper's) or ``last`` (-1, its ablation).
        max_tokens: longest text that is read; longer conversations are cut by a stated rule.
        item_tokens: longest part of one transcript item that the encoder reads (head and tail are kept).
        center: subtract the mean state of a fixed list of questions; the paper does not.
        norm: applied after centring.
        singular_values: the matrices whose singular values are part of the search, in the order of theta.
    """

    model: str
    revision: str | None = None
    position: str = "penultimate"
    max_tokens: int = 4096
    item_tokens: int = 512
    center: bool = False
    norm: Norm = Norm.NONE
    singular_values: tuple[Matrix, ...] = ()


class HeadKind(StrEnum):
    """The heads of the paper's Table 6; ``block_diagonal_10`` has one block per logit, ten in the paper."""

    LINEAR = "linear"
    LOW_RANK = "low_rank"
    SPARSE = "sparse"
    BLOCK_DIAGONAL_2 = "block_diagonal_2"
    BLOCK_DIAGONAL_10 = "block_diagonal_10"


class Output(StrEnum):
    """How logits become an action (paper, Table 3)."""

    SOFTMAX = "softmax"  # drawn from two independent softmaxes
    ARGMAX = "argmax"  # ties go to the lower index


@dataclass(frozen=True)
class HeadSpec:
    """What turns a state into logits (paper, appendix A.4).

    Attributes:
        kind: which head.
        output: how its logits become an action.
        rank: of the low-rank head; None for the others.
    """

    kind: HeadKind = HeadKind.LINEAR
    output: Output = Output.SOFTMAX
    rank: int | None = None


class VerifierWithoutAnswer(StrEnum):
    """What a Verifier chosen before any Worker does (trinity.md 4.2)."""

    COUNT_AS_REVISE = "count_as_revise"
    END_ZERO = "end_zero"
    FORCE_WORKER = "force_worker"


class EvidenceUse(StrEnum):
    """What becomes of what a machine finds out about an answer that a Verifier is asked about."""

    NONE = "none"  # nothing is looked for (the paper)
    SHOW = "show"  # the Verifier reads it
    DECIDE = "decide"  # what refutes the answer is the verdict, without a call; the Verifier reads the rest


class Notes(StrEnum):
    """Which turns later turns and the router read about (trinity.md 4.2)."""

    ALL = "all"  # every role's, as in the paper
    WORKER = "worker"  # the Workers'; a Thinker's advice reaches the next turn alone (authors' code)


@dataclass(frozen=True)
class ProtocolSpec:
    """The tri-role protocol (paper, section 3.2).

    Attributes:
        roles: the roles that may be chosen; leaving some out are the paper's ablations.
        agents: names of the pool models that may be chosen; empty for all.
        notes: whose turns are shown to later ones.
        evidence: what becomes of a machine's findings on the answer under review.
    """

    roles: tuple[Role, ...] = ROLE_ORDER
    agents: tuple[str, ...] = ()
    notes: Notes = Notes.ALL
    max_turns: int = 5
    max_output_tokens: int = 4096
    temperature: float = 0.1
    thinker_sets_role: bool = True
    verifier_without_answer: VerifierWithoutAnswer = VerifierWithoutAnswer.COUNT_AS_REVISE
    call_timeout_seconds: float = 120.0
    episode_timeout_seconds: float = 900.0
    evidence: EvidenceUse = EvidenceUse.NONE


@dataclass(frozen=True)
class ScoringSpec:
    """How final answers are judged, beyond what each problem says; ``judge`` names the pool model that rates them."""

    judge: str | None = None


class Reuse(StrEnum):
    """When a model's reply counts again for a call that asks the same and wants the same sample."""

    NEVER = "never"
    WITHIN_GENERATION = "within_generation"  # by the candidates of one generation of one campaign
    ALWAYS = "always"  # by every campaign of the same database that has this policy


@dataclass(frozen=True)
class AnswersSpec:
    """What is done with the replies of models, beyond the transcript."""

    reuse: Reuse = Reuse.NEVER


class StepSize(StrEnum):
    """How the step size adapts: two-point (pycma's choice for n >= 300, the authors') or by the evolution path."""

    TPA = "tpa"
    CSA = "csa"


class Algorithm(StrEnum):
    """What learns (paper, sections 3.3 and 4.8)."""

    SEP_CMA_ES = "sep_cma_es"
    RANDOM_SEARCH = "random_search"
    REINFORCE = "reinforce"
    SFT = "sft"  # fits the head to the labelled training problems; there are no training generations
    GIVEN = "given"  # nothing: a coordinator that was released before is compared


class Start(StrEnum):
    """Where a search starts."""

    ZERO = "zero"  # the layout's own point, which for most heads is zero
    SFT = "sft"  # the head fitted to the labelled training problems


@dataclass(frozen=True)
class LabelsSpec:
    """Every model answers training problems on its own, before anything is trained; what learns from labels needs it.

    Attributes:
        problems: how many training problems are labelled; 0 for none.
        repeats: answers of every model to each of them.
    """

    problems: int = 0
    repeats: int = 1


@dataclass(frozen=True)
class SearchSpec:
    """How a coordinator is trained (paper, sections 3.3 and 4.8).

    ``population`` is resolved already, by default ceil(4 + 3 ln n).

    Attributes:
        algorithm: what learns.
        start: where it starts.
        minibatch: ``common`` problems and seeds for all candidates of a generation, or ``fresh`` ones for each
            (authors' code).
        step_size: adaptation of sigma.
        entropy_bonus: weight of the entropy, in nats, of the agents that a candidate's episodes chose (authors: 0.15).
        turn_bonus: weight of the penalty on turns (authors: 0.1).
        mean_rate: part of each step that sep-CMA-ES's mean takes; the paper's takes all of it.
        antithetic: sep-CMA-ES draws its samples in pairs that mirror each other in the mean.
        half_width: of the box that random search draws from (paper, appendix A.5).
        cost_weight: weight of the penalty on what training episodes cost, in units of ``cost_unit_usd``.
        cost_unit_usd: USD; None only where costs do not count.
        coordinator: name of the released one that is compared; None exactly where something learns.
    """

    population: int
    replicates: int
    generations: int
    sigma0: float
    minibatch: str = "common"
    step_size: StepSize = StepSize.TPA
    entropy_bonus: float = 0.0
    turn_bonus: float = 0.0
    algorithm: Algorithm = Algorithm.SEP_CMA_ES
    start: Start = Start.ZERO
    half_width: float = 0.5
    mean_rate: float = 1.0
    antithetic: bool = False
    cost_weight: float = 0.0
    cost_unit_usd: float | None = None
    coordinator: str | None = None

    @property
    def candidates(self) -> int:
        """Vectors that a training generation tries: REINFORCE has its policy alone."""
        return 1 if self.algorithm is Algorithm.REINFORCE else self.population

    @property
    def trials(self) -> int:
        """Training episodes of each; whatever learns, a generation has population x replicates of them."""
        return self.population * self.replicates // self.candidates

    @property
    def rounds(self) -> int:
        """Training generations: what is fitted to labels has none, and neither has what was released before."""
        return 0 if self.algorithm in (Algorithm.SFT, Algorithm.GIVEN) else self.generations


@dataclass(frozen=True)
class ValidationSpec:
    """The mean is scored on ``problems`` problems every ``every`` generations; 0 problems switch it off."""

    every: int
    problems: int


@dataclass(frozen=True)
class EvaluationSpec:
    """Held-out comparison after the search; 0 problems switch it off.

    Attributes:
        problems: how many.
        baselines: ``single``, ``random``.
        rivals: what else the coordinator is compared with.
        repeats: episodes of every policy on each problem.
    """

    problems: int
    baselines: tuple[str, ...] = ("single", "random")
    rivals: tuple[RivalSpec, ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class BudgetLimits:
    """Hard limits; None means unlimited. Episodes are limited always."""

    episodes: int
    calls: int | None = None
    tokens: int | None = None
    usd: Decimal | None = None
    wall_clock_seconds: float | None = None


@dataclass(frozen=True)
class Campaign:
    """A resolved campaign specification.

    Attributes:
        max_attempts: attempts of an episode before it fails for good.
        max_failure_share: share of failed or lost attempts among the newest ones above which the campaign pauses.
        weight: its share of the workers relative to other campaigns that run at the same time.
        head: what is trained on top of the encoder.
        scoring: what judges answers that have no reference to compare with.
        answers: whether replies are used again.
        labels: what every model's own answers are asked for in advance.
        reinforce: settings of that algorithm.
        supervised: settings of what is fitted to labels, as the algorithm or as the start of another.
    """

    name: str
    seed: int
    pool: tuple[ModelSpec, ...]
    encoder: EncoderSpec
    hidden_size: int
    protocol: ProtocolSpec
    search: SearchSpec
    validation: ValidationSpec
    evaluation: EvaluationSpec
    budget: BudgetLimits
    max_attempts: int = 5
    max_failure_share: float = 0.5
    weight: float = 1.0
    head: HeadSpec = HeadSpec()
    scoring: ScoringSpec = ScoringSpec()
    answers: AnswersSpec = AnswersSpec()
    labels: LabelsSpec = LabelsSpec()
    reinforce: ReinforceSpec = field(default_factory=ReinforceSpec)
    supervised: SupervisedSpec = field(default_factory=SupervisedSpec)

    @property
    def fits_labels(self) -> bool:
        """Whether a head fitted to labels is what is trained, or where training starts."""
        return self.search.algorithm is Algorithm.SFT or self.search.start is Start.SFT

    @property
    def fits_team(self) -> bool:
        """Whether what is fitted to labels acts in several turns."""
        return self.fits_labels and self.supervised.targets is Targets.TEAM

    @property
    def first_training(self) -> int:
        """The number of the first training generation: the labelling one, if there is one, has number 0."""
        return int(self.labels.problems > 0)

    @property
    def judge(self) -> int | None:
        """The place of the judge in the pool; None without one."""
        names = [model.name for model in self.pool]
        return None if self.scoring.judge is None else names.index(self.scoring.judge)
