"""``campaign watch``: the campaign as it moves, on a terminal as a live page, elsewhere as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from services.cli import connections, render
from services.cli.advice import what_now
from services.config import document
from services.config.settings import Settings
from services.core.campaign import Campaign
from services.core.errors import DatabaseUnavailable, TrinityError
from services.core.states import CampaignState, EpisodeState, GenerationKind
from services.storage import campaigns, overview
from services.storage.engine import Database
from services.storage.records import CurvePoint, Progress

LINE_SECONDS = 10.0
STOPPED = frozenset(
    {CampaignState.COMPLETED, CampaignState.FAILED, CampaignState.CANCELLED, CampaignState.BUDGET_EXHAUSTED}
)
SPARKS = "▁▂▃▄▅▆▇█"

Queues = Callable[[], Mapping[str, int]]


@dataclass
class View:
    """The newest look at a campaign. The learning curve is read again only when a generation has closed."""

    campaign: Campaign
    progress: Progress
    curve: list[CurvePoint]
    queues: Mapping[str, int] | None = None
    trouble: str | None = None
    looked_at: tuple[object, ...] = field(default=())

    @property
    def state(self) -> CampaignState:
        return self.progress.campaign.state


def watch(
    database: Database,
    settings: Settings,
    name: str,
    *,
    interval: float,
    stop_at: frozenset[CampaignState] = STOPPED,
    alive: Callable[[], None] = lambda: None,
) -> CampaignState:
    """Show the campaign until its state is one of ``stop_at``; say what to do about it, and return that state.

    Args:
        database: an open database; a short outage is shown and waited out.
        settings: where the broker is; without one the queues are not shown.
        name: the campaign.
        interval: seconds between two looks.
        stop_at: states that end the watching.
        alive: called at every look; may raise to stop watching.
    """
    view = first_look(database, name)
    with queue_reader(settings) as queues, screen() as draw:
        while True:
            draw(view)
            if view.state in stop_at:
                break
            alive()
            time.sleep(interval)
            look_again(database, queues, view)
    if advice := what_now(view.progress.campaign):
        render.say(advice)
    return view.state


def first_look(database: Database, name: str) -> View:
    with database.transaction() as conn:
        record = campaigns.by_name(conn, name)
        progress = overview.progress(conn, record.id)
        return View(document.from_json(record.spec), progress, overview.learning_curve(conn, record.id))


def look_again(database: Database, queues: Queues, view: View) -> None:
    """Bring ``view`` up to date; what cannot be reached at the moment keeps its last figures and is said."""
    view.trouble = None
    try:
        with database.transaction() as conn:
            view.progress = overview.progress(conn, view.progress.campaign.id)
            position = (view.progress.generation, view.progress.generation_state)
            if position != view.looked_at:
                view.curve = overview.learning_curve(conn, view.progress.campaign.id)
                view.looked_at = position
    except DatabaseUnavailable as error:
        view.trouble = str(error)
    view.queues = queues()


@contextmanager
def queue_reader(settings: Settings) -> Iterator[Queues]:
    """Yield a reader of queue lengths; without a broker it knows of no queues, which is enough to watch."""
    with ExitStack() as stack:
        try:
            read: Queues = stack.enter_context(connections.open_queues(settings))
        except TrinityError:
            read = dict
        yield read


@contextmanager
def screen() -> Iterator[Callable[[View], None]]:
    """Yield what draws a view: a live page on a terminal, else a line when something happened."""
    if not sys.stdout.isatty():
        yield Lines().draw
        return
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda view: live.update(page(view), refresh=True)


class Lines:
    """Draws one line per closed generation or change of state, and else at most one every few seconds."""

    def __init__(self) -> None:
        self._last_key: tuple[object, ...] = ()
        self._last_line = ""
        self._last_time = 0.0

    def draw(self, view: View) -> None:
        line = status_line(view)
        key = (view.state, view.progress.generation, len(view.curve))
        due = time.monotonic() - self._last_time >= LINE_SECONDS and line != self._last_line
        if key != self._last_key or due:
            render.show(line)
            sys.stdout.flush()
            if view.state is CampaignState.PAUSED and self._last_key[:1] != (view.state,):
                render.say(what_now(view.progress.campaign) or "")
            self._last_key, self._last_line, self._last_time = key, line, time.monotonic()


def status_line(view: View) -> str:
    """Return the view as one line."""
    progress, record = view.progress, view.progress.campaign
    parts = [f"{record.name}: {record.state}" + (f" ({record.stop_reason})" if record.stop_reason else "")]
    if progress.generation is not None:
        parts.append(f"{generation_text(view)} {progress.done}/{progress.total} episodes")
    if view.curve:
        point = view.curve[-1]
        validation = "" if point.validation is None else f", validation {point.validation:.3f}"
        parts.append(f"fitness {point.mean_fitness:.3f}{validation}")
    parts.append(f"spent {render.usd(record.spend.usd_charged)}")
    parts.append(f"{render.duration(record.running_seconds)}")
    if view.trouble:
        parts.append(view.trouble)
    return render.printable(" | ".join(parts))


def generation_text(view: View) -> str:
    if view.progress.generation_kind is GenerationKind.EVALUATION:
        return "held-out evaluation"
    if view.progress.generation_kind is GenerationKind.VALIDATION:
        return "validation of the last mean"
    if view.progress.generation_kind is GenerationKind.LABELLING:
        return "labelling of training problems"
    number = view.progress.generation or 0
    place = number - view.campaign.first_training + 1
    return f"generation {number} ({place} of {view.campaign.search.rounds})"


def page(view: View) -> RenderableType:
    """Return the live page; texts from outside are never read as markup."""
    progress, record = view.progress, view.progress.campaign
    reason = f"  {record.stop_reason}" if record.stop_reason else ""
    heading = Text.assemble((record.name, "bold"), f"  {record.state}", (render.printable(reason), "yellow"))
    facts = Table.grid(padding=(0, 2))
    for name, text in page_rows(view):
        facts.add_row(Text(name, style="dim"), Text(render.printable(text)))
    failures = "  ".join(f"{number} x {kind}" for kind, number in sorted(progress.failures.items()))
    parts: list[RenderableType] = [heading, facts]
    if failures:
        parts.append(Text(f"failed attempts: {render.printable(failures)}", style="yellow"))
    if view.trouble:
        parts.append(Text(view.trouble, style="red"))
    return Group(*parts)


def page_rows(view: View) -> list[tuple[str, str]]:
    progress, spend, limits = view.progress, view.progress.campaign.spend, view.progress.campaign.budget
    rows = []
    if progress.generation is not None:
        rows.append(("now", f"{generation_text(view)}  {bar(progress.done, progress.total)}  {states(progress)}"))
    if view.curve:
        rows.append(("fitness", f"{sparkline([point.mean_fitness for point in view.curve])}  {curve_text(view.curve)}"))
        tested = [point.validation for point in view.curve if point.validation is not None]
        if tested:
            rows.append(("validation", f"{sparkline(tested)}  {tested[-1]:.3f}"))
    if progress.campaign.stop_reason and (advice := what_now(progress.campaign)):
        rows.append(("what now", advice))
    rows.append(("models", parts_of({view.campaign.pool[index].name: n for index, n in progress.agents.items()})))
    rows.append(("roles", parts_of({role.value: n for role, n in progress.roles.items()})))
    limit = "" if limits.usd is None else f" of {render.usd(limits.usd)}"
    calls = f"{render.count(spend.calls_started)}{'' if limits.calls is None else f' of {render.count(limits.calls)}'}"
    tokens = f"{render.count(spend.tokens_charged)} tokens"
    rows.append(
        ("spent", f"{render.usd(spend.usd_charged)}{limit}, {tokens}, {render.usd(spend.usd_reserved)} reserved")
    )
    rows.append(("calls", f"{calls}; weight {progress.campaign.weight:g}"))
    if view.queues:
        rows.append(("queues", "  ".join(f"{name} {length}" for name, length in view.queues.items())))
    rows.append(("running", render.duration(progress.campaign.running_seconds)))
    return rows


def curve_text(curve: list[CurvePoint]) -> str:
    last = curve[-1]
    return f"mean {last.mean_fitness:.3f}, best {last.best_fitness:.3f}, sigma {last.sigma:.3g}"


def states(progress: Progress) -> str:
    order = (EpisodeState.SCORED, EpisodeState.RUNNING, EpisodeState.QUEUED, EpisodeState.PENDING, EpisodeState.FAILED)
    return ", ".join(f"{progress.episodes[state]} {state}" for state in order if progress.episodes.get(state))


def bar(done: int, total: int, width: int = 24) -> str:
    filled = width * done // total if total else 0
    return "█" * filled + "░" * (width - filled)


def sparkline(values: list[float], width: int = 40) -> str:
    """Return the newest values as bars from 0 to 1, the range of a reward; what bonuses take beyond it is cut off."""
    return "".join(SPARKS[min(len(SPARKS) - 1, max(0, int(value * len(SPARKS))))] for value in values[-width:])


def parts_of(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return (
        "  ".join(f"{name} {render.share(number / total)}" for name, number in counts.items()) if total else "none yet"
    )
