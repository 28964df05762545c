"""Every error the product raises on purpose.

::

    TrinityError
    +- SpecError            a campaign or pool file asks for something wrong
    +- IllegalTransition    a state machine was asked for a step it does not have
    +- BudgetExhausted      a reservation does not fit under a limit
    +- LayoutMismatch       a parameter vector does not fit its layout
    +- LeaseLost            this worker no longer owns the attempt it is working on
    +- AttemptInterrupted   the worker is stopping, or its campaign is no longer running
    +- LeadershipLost       another scheduler took office; this one may write nothing
    +- ReplayMismatch       replaying the search did not meet a stored checksum
    +- PoolError            a model call failed
    |  +- TransientPoolError    RateLimited, ProviderUnavailable (NetworkFailed), CallTimedOut, BadReply: worth another
    |  |                        try
    |  +- CircuitOpen           the model is left alone for a while; another attempt may find it again
    |  +- PermanentPoolError    AuthenticationFailed, UnknownModel, ContextTooLong, ContentRefused, RequestRejected
    +- Throttled            a limit that all workers share is used up for the moment; wait and ask again
    +- UnknownPrice         a model without a price, found before anything is spent
    +- Unscorable           a problem whose answer cannot be judged; never a reward
    +- GradingUnavailable   a grader gave no verdict for reasons of its own; another try may
    +- PrerequisiteMissing  something outside is absent; carries the command that provides it
       +- DatabaseUnavailable   the database cannot be reached or is too busy; the same step may work later
"""

from __future__ import annotations

from decimal import Decimal

from services.core.ledger.usage import Usage


class TrinityError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one sentence."""


class SpecError(TrinityError):
    """A file written by a person is wrong.

    Args:
        path: where, as a dotted field path or a file name with a line number.
        got: the offending value, shown as is.
        wanted: what would have been accepted, as a phrase.
    """

    def __init__(self, path: str, got: object, wanted: str) -> None:
        super().__init__(f"{path}: got {got!r}, wanted {wanted}")
        self.path = path
        self.got = got
        self.wanted = wanted


class IllegalTransition(TrinityError):
    """A state machine has no step from where it is to where it was asked to go."""

    def __init__(self, entity: str, source: str, target: str, hint: str = "") -> None:
        super().__init__(f"{entity} is {source} and cannot become {target}{hint and '; ' + hint}")
        self.entity = entity
        self.source = source
        self.target = target


class BudgetExhausted(TrinityError):
    """A reservation does not fit: limit < charged + reserved + wanted."""

    def __init__(
        self,
        scope: str,
        limit: Decimal | int,
        charged: Decimal | int,
        reserved: Decimal | int,
        wanted: Decimal | int,
    ) -> None:
        super().__init__(
            f"budget of {scope} exhausted: limit {limit}, charged {charged}, reserved {reserved}, "
            f"and the next step may need {wanted}"
        )
        self.scope = scope
        self.limit = limit
        self.charged = charged
        self.reserved = reserved
        self.wanted = wanted

    @property
    def may_come_free(self) -> bool:
        """Whether only what is held for steps under way stands in the way: they mostly cost less than they hold."""
        return self.reserved > 0 and self.charged + self.wanted <= self.limit


class LayoutMismatch(TrinityError):
    """A parameter vector has another size than its layout; lists the layout block by block, and what is wrong where."""

    def __init__(self, expected: dict[str, int], actual: int, where: str = "") -> None:
        blocks = " + ".join(f"{name} {size}" for name, size in expected.items())
        wanted = f"its layout wants {sum(expected.values())} ({blocks})"
        super().__init__(f"theta has {actual} entries, {wanted}{where and '; ' + where}")
        self.expected = expected
        self.actual = actual


class LeaseLost(TrinityError):
    """The attempt belongs to somebody else by now; whatever it computed is not counted."""

    def __init__(self, episode: int, attempt: int) -> None:
        super().__init__(f"episode {episode} attempt {attempt} is no longer leased to this worker")
        self.episode = episode
        self.attempt = attempt


class AttemptInterrupted(TrinityError):
    """The attempt ends without a verdict because the worker stops or the campaign does not run."""


class LeadershipLost(TrinityError):
    """Another scheduler took office since; whatever this one was about to write is void."""

    def __init__(self, epoch: int, current: int) -> None:
        super().__init__(f"this scheduler led in epoch {epoch}, but epoch {current} has begun; it must stop writing")
        self.epoch = epoch
        self.current = current


class ReplayMismatch(TrinityError):
    """Rebuilding the search from its stored fitness vectors led somewhere else than it did before."""


class PoolError(TrinityError):
    """A model call failed.

    Attributes:
        billed_unknown: the provider may have charged for it.
        received: what it used at least, where a part of the reply had come; estimated.
    """

    def __init__(self, message: str, *, billed_unknown: bool = False) -> None:
        super().__init__(message)
        self.billed_unknown = billed_unknown
        self.received: Usage | None = None


class TransientPoolError(PoolError):
    """The same call may succeed later."""


class RateLimited(TransientPoolError):
    """The provider asked to slow down."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ProviderUnavailable(TransientPoolError):
    """The provider could not be reached or answered with a server error."""


class NetworkFailed(ProviderUnavailable):
    """No connection came about, or it broke before the whole reply was there."""


class CallTimedOut(TransientPoolError):
    """No complete reply before the call's deadline."""


class BadReply(TransientPoolError):
    """The provider answered something that is not a chat completion."""


class CircuitOpen(PoolError):
    """The model failed several times in a row and is left alone; nothing was sent.

    Attributes:
        seconds: when to try again.
        lasting: it has been so for long; the attempt has failed. Before that it is waited out.
    """

    def __init__(self, model: str, seconds: float, *, lasting: bool = True) -> None:
        super().__init__(f"{model}: it failed several times in a row and is left alone for another {seconds:.0f} s")
        self.seconds = seconds
        self.lasting = lasting


class PermanentPoolError(PoolError):
    """The same call will fail again."""


class AuthenticationFailed(PermanentPoolError):
    """The provider refused the key."""


class UnknownModel(PermanentPoolError):
    """The provider does not know the model."""


class ContextTooLong(PermanentPoolError):
    """The conversation does not fit the model's window; ``foreseen`` by our own count, so that nothing was sent."""

    def __init__(self, message: str, *, foreseen: bool = False) -> None:
        super().__init__(message)
        self.foreseen = foreseen


class ContentRefused(PermanentPoolError):
    """The provider's filter refused the request or the reply."""


class RequestRejected(PermanentPoolError):
    """The provider refused the request as malformed, or redirects it."""


class Throttled(TrinityError):
    """A call must wait for a limit on its model; nothing was reserved. ``seconds``: when to ask again."""

    def __init__(self, model: str, seconds: float) -> None:
        super().__init__(f"{model}: its limits are used up for the next {seconds:.1f} s")
        self.seconds = seconds


class UnknownPrice(TrinityError):
    """A pool model has no price, so no budget could be kept."""


class Unscorable(TrinityError):
    """The problem's answer cannot be judged. It is a failure, never a reward of 0."""

    def __init__(self, problem: str, reason: str) -> None:
        super().__init__(f"problem {problem} cannot be scored: {reason}")
        self.problem = problem
        self.reason = reason


class GradingUnavailable(TrinityError):
    """A grader gave no verdict for reasons that are not the answer's: a process was lost, a machine is overloaded.

    The attempt failed and is repeated; it is never a reward of 0.
    """


class PrerequisiteMissing(TrinityError):
    """Something outside the product is absent; ``cure`` is the command or setting that provides it."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


class DatabaseUnavailable(PrerequisiteMissing):
    """The database cannot be reached, went away, or did not grant a lock in time. Nothing of the step was written."""
