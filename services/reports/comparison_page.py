"""The comparison as parts of an HTML page: rewards and differences, what they cost, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.core.statistics.intervals import Interval
from services.reports.comparison import Comparison, Difference, Line
from services.reports.costs import Costs
from services.reports.markup import note, picture, section, table
from services.reports.records import LeftOut, PolicyKind

CAPTIONS = {
    "comparison.png": "Every policy on the same held-out problems with the same seeds.",
    "frontier.png": "What the reward costs. Vertical lines are 95 % intervals of the mean reward.",
    "turns.png": "Whom the trained coordinator chose at each turn of the held-out problems.",
}
REWARDS_NOTE = (
    "Intervals are 95 %: Wilson's for rewards of 0 and 1, else a bootstrap over problems; repeats of a problem are "
    "averaged first. Differences are paired by problem. p is McNemar's exact test, then Holm's correction for all "
    "policies of the table. The best single model and the best rival are chosen by these very scores, which favours "
    "them. The oracle knows for each problem which model succeeds; no router can do better with one call to one of "
    "these models."
)
COSTS_NOTE = (
    "Only attempts that led to a reward count. Kept replies count at their list price, so that policies can be "
    "compared; 'paid in all' is what was really spent on these episodes. Correct answers are units of reward. On the "
    "front is what no other policy beats in both reward and price; bounds are left out. A judge's calls are not a "
    "policy's and stand below."
)
EFFORT_NOTE = (
    "Means per question. Failed are tries that brought no readable reply, uncounted the calls whose tokens no provider "
    "counted, both of all episodes. Seconds are those of an episode's calls added up, without waiting for a place; "
    "quantiles over episodes. The last columns are the shares of episodes by why they ended."
)


def sections(comparison: Comparison, plots: Mapping[str, bytes], left_out: Sequence[LeftOut] = ()) -> list[str]:
    """Return the sections of a comparison; the first says so when nothing was answered."""
    if not comparison.lines:
        return [section("Held-out comparison", ["<p>No held-out problem has been answered yet.</p>"])]
    return [
        section("Held-out comparison", [drawn(plots, "comparison.png"), *reward_parts(comparison)]),
        section("What it costs", [drawn(plots, "frontier.png"), *cost_parts(comparison), left_out_table(left_out)]),
        section("What it takes", [drawn(plots, "turns.png"), *effort_parts(comparison)]),
    ]


def sentence(difference: Difference, subject: str = "the trained coordinator") -> str:
    """Return what a paired difference says, neither more nor less."""
    interval = difference.interval
    if interval.low > 0:
        verdict = "does better than"
    elif interval.high < 0:
        verdict = "does worse than"
    else:
        verdict = "cannot be told from"
    return (
        f"On {difference.n} held-out problems {subject} {verdict} {difference.against}: "
        f"difference {interval.estimate:+.3f}, 95 % interval {interval.low:+.3f} to {interval.high:+.3f}."
    )


def drawn(plots: Mapping[str, bytes], name: str) -> str:
    return picture(plots, name, CAPTIONS[name])


def reward_parts(comparison: Comparison) -> list[str]:
    explained = f"The difference to a policy is the mean reward of {comparison.reference} minus its own. {REWARDS_NOTE}"
    return [policy_table(comparison.lines, comparison.differences), family_table(comparison), note(explained)]


REWARD_COLUMNS = (
    "policy",
    "n",
    "repeats",
    "mean reward",
    "95 % interval",
    "difference to it",
    "95 % interval",
    "better / worse / equal",
    "p",
    "p (Holm)",
)
COST_COLUMNS = (
    "policy",
    "USD per 1,000 questions",
    "95 % interval",
    "USD per 1,000 correct",
    "95 % interval",
    "on the front",
    "paid in all",
    "kept replies",
)
EFFORT_COLUMNS = ("policy", "tokens in", "tokens out", "calls", "failed", "uncounted", "seconds p50", "p95", "turns")
PER = 1000


def policy_table(lines: Sequence[Line], differences: Sequence[Difference]) -> str:
    """Return every policy's reward with the coordinator's difference to it."""
    of_name = {each.against: each for each in differences}
    rows = [(*reward_cells(line), *difference_cells(of_name.get(line.policy))) for line in lines]
    return table(REWARD_COLUMNS, rows, [line.kind is PolicyKind.COORDINATOR for line in lines])


def reward_cells(line: Line) -> tuple[str, ...]:
    return line.policy, f"{line.n}", f"{line.repeats}", f"{line.interval.estimate:.3f}", span(line.interval)


def difference_cells(found: Difference | None) -> tuple[str, ...]:
    if found is None:
        return ("-",) * 5
    counted, interval = found.discordance, found.interval
    return (
        f"{interval.estimate:+.3f}",
        f"{interval.low:+.3f} to {interval.high:+.3f}",
        f"{counted.wins} / {counted.losses} / {counted.ties}",
        p_text(found.p),
        p_text(found.adjusted),
    )


def p_text(p: float | None) -> str:
    """Return a p-value with three digits, the smallest as less than a thousandth."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def family_table(comparison: Comparison) -> str:
    """Return means with one column per family and their plain average, or nothing when there is one family only."""
    if not comparison.families:
        return ""
    sizes = {family: max(line.n for line in lines) for family, lines in comparison.families.items()}
    columns = ("policy", *(f"{family} (n={size})" for family, size in sizes.items()), "mean of families")
    rows = [(line.policy, *family_cells(comparison, line.policy)) for line in comparison.lines]
    bold = [line.kind is PolicyKind.COORDINATOR for line in comparison.lines]
    return f"<h3>Mean reward by family</h3>{table(columns, rows, bold)}"


def family_cells(comparison: Comparison, policy: str) -> list[str]:
    means = comparison.family_means(policy)
    whole = number(sum(means.values()) / len(means), 3) if len(means) == len(comparison.families) else "-"
    return [*(number(means.get(family), 3) for family in comparison.families), whole]


def priced(comparison: Comparison) -> list[tuple[Line, Costs]]:
    return [(line, line.costs) for line in comparison.lines if line.costs is not None]


def cost_parts(comparison: Comparison) -> list[str]:
    """Return what the policies cost."""
    if not (known := priced(comparison)):
        return []
    front = {line.policy for line in comparison.frontier}
    rows = [
        (
            line.policy,
            *usd_cells(costs.usd),
            *usd_cells(costs.usd_per_correct),
            "bound" if line.bound else "yes" if line.policy in front else "no",
            f"{costs.paid:.6f}",
            f"{costs.hits:,}",
        )
        for line, costs in known
    ]
    return [table(COST_COLUMNS, rows, [line.kind is PolicyKind.COORDINATOR for line, _ in known]), note(COSTS_NOTE)]


def usd_cells(interval: Interval | None) -> tuple[str, str]:
    if interval is None:
        return "-", "-"
    low, middle, high = (f"{PER * value:.4f}" for value in (interval.low, interval.estimate, interval.high))
    return middle, f"{low} to {high}"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def effort_parts(comparison: Comparison) -> list[str]:
    """Return what the policies take beside money, and why their episodes ended."""
    if not (known := priced(comparison)):
        return []
    reasons = list(dict.fromkeys(reason for _, costs in known for reason in costs.stops))
    rows = [
        (line.policy, *effort_cells(costs), *(percent(costs.stops.get(each, 0), costs.episodes) for each in reasons))
        for line, costs in known
    ]
    columns = (*EFFORT_COLUMNS, *(reason.replace("_", " ") for reason in reasons))
    notes = [EFFORT_NOTE, *(drawn_note(line.policy, costs) for line, costs in known if costs.drawn)]
    return [table(columns, rows, [line.kind is PolicyKind.COORDINATOR for line, _ in known]), *map(note, notes)]


def drawn_note(policy: str, costs: Costs) -> str:
    """Return how often a prompted coordinator named nothing that is possible."""
    return f"{policy}: {100 * costs.drawn:.1f} % of the turns were drawn, its replies naming no possible action."


def effort_cells(costs: Costs) -> tuple[str, ...]:
    return (
        number(costs.tokens_in, 0),
        number(costs.tokens_out, 0),
        number(costs.calls, 2),
        f"{costs.errors:,}",
        f"{costs.estimated:,}",
        number(costs.latency_p50, 2),
        number(costs.latency_p95, 2),
        number(costs.turns, 2),
    )


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def left_out_table(left_out: Sequence[LeftOut]) -> str:
    """Return what no reward came of, and what grading took; nothing when there is nothing of either."""
    told = [each for each in left_out if each.unscored or each.failures or each.usd or each.grading_usd]
    if not told:
        return ""
    columns = ("policy", "episodes without a reward", "attempts without a reward", "their USD", "USD of grading")
    rows = [
        (each.policy, f"{each.unscored:,}", f"{each.failures:,}", f"{each.usd:.6f}", f"{each.grading_usd:.6f}")
        for each in told
    ]
    return f"<h3>Not in these figures</h3>{table(columns, rows)}"


def span(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"
