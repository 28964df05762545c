"""The HTML report: one page without scripts or outside resources, plots inside it and as files beside it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path

from services.core.statistics.intervals import Interval
from services.reports.comparison import Comparison, Difference, Line, compare
from services.reports.plots import draw_all
from services.reports.records import CallFigure, CampaignFacts, OutcomeFigure, PolicyKind
from services.reports.style import STYLE

CAPTIONS = {
    "learning_curve.png": "Reward of the candidates by generation, and the step size of the search.",
    "models.png": "Which pool models the candidates' heads chose, as shares of all turns of a generation.",
    "roles.png": "Which roles acted, as shares of all turns of a generation.",
    "spend.png": "What the training generations have cost so far, charged and settled.",
    "comparison.png": "Every policy on the same held-out problems with the same seeds.",
}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><main>
{body}
</main></body></html>
"""


def write(facts: CampaignFacts, folder: Path) -> Path:
    """Write ``index.html`` and the plots into ``folder`` (made if absent) and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    comparison = compare(facts.scores, facts.seed)
    plots = draw_all(facts, comparison)
    for name, content in plots.items():
        (folder / name).write_bytes(content)
    page = folder / "index.html"
    page.write_text(document(facts, comparison, plots), encoding="utf-8")
    return page


def document(facts: CampaignFacts, comparison: Comparison, plots: dict[str, bytes]) -> str:
    """Return the page; every text that comes from a campaign is escaped."""
    title = escape(f"Campaign {facts.name}")
    body = "\n".join(
        [
            f"<h1>{title}</h1>",
            f"<p class=lead>{escape(lead(facts, comparison))}</p>",
            section("Held-out comparison", [figure(plots, "comparison.png"), *comparison_parts(comparison)]),
            section("Learning", [figure(plots, "learning_curve.png")]),
            section("What the coordinator chooses", [figure(plots, "models.png"), figure(plots, "roles.png")]),
            section("Outcomes", [outcomes_table(facts.outcomes)]),
            section("Calls and spend", [figure(plots, "spend.png"), calls_table(facts.calls)]),
            section("Reproduce", [reproduce(facts)]),
        ]
    )
    return PAGE.format(title=title, style=STYLE, body=body)


def lead(facts: CampaignFacts, comparison: Comparison) -> str:
    """Return the sentence that a hurried reader takes away."""
    state = f"The campaign is {facts.state}" + (f" ({facts.reason})" if facts.reason else "")
    generations = f"{state} after {len(facts.curve)} training generations."
    return " ".join([generations, *(sentence(difference) for difference in comparison.differences)])


def sentence(difference: Difference) -> str:
    """Return what a paired difference says, neither more nor less."""
    interval = difference.interval
    if interval.low > 0:
        verdict = "does better than"
    elif interval.high < 0:
        verdict = "does worse than"
    else:
        verdict = "cannot be told from"
    return (
        f"On {difference.n} held-out problems the trained coordinator {verdict} {difference.against}: "
        f"difference {interval.estimate:+.3f}, 95 % interval {interval.low:+.3f} to {interval.high:+.3f}."
    )


def section(title: str, parts: Iterable[str]) -> str:
    """Return a section, or nothing when it has no content."""
    content = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>" if content else ""


def figure(plots: dict[str, bytes], name: str) -> str:
    if name not in plots:
        return ""
    data = base64.b64encode(plots[name]).decode("ascii")
    caption = escape(CAPTIONS[name])
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def comparison_parts(comparison: Comparison) -> list[str]:
    if not comparison.lines:
        return ["<p>No held-out problem has been answered yet.</p>"]
    note = (
        "Intervals are 95 %: Wilson's for rewards of 0 and 1, else a bootstrap over problems. The best single model is "
        "chosen by these very scores, which favours it. The oracle knows for each problem which model succeeds; no "
        "router can do better with one call to one of these models."
    )
    return [policy_table(comparison.lines), family_table(comparison), f"<p class=note>{escape(note)}</p>"]


def policy_table(lines: Sequence[Line]) -> str:
    rows = [(line.policy, f"{line.n}", f"{line.interval.estimate:.3f}", span(line.interval)) for line in lines]
    bold = [line.kind is PolicyKind.COORDINATOR for line in lines]
    return table(("policy", "n", "mean reward", "95 % interval"), rows, bold)


def family_table(comparison: Comparison) -> str:
    """Return means by family, one column per policy, or nothing when there is one family only."""
    if not comparison.families:
        return ""
    policies = [line.policy for line in comparison.lines]
    rows = []
    for family, lines in comparison.families.items():
        own = {line.policy: line for line in lines}
        size = max(line.n for line in lines)
        cells = [f"{own[name].interval.estimate:.3f}" if name in own else "-" for name in policies]
        rows.append((family, f"{size}", *cells))
    return f"<h3>By family</h3>{table(('family', 'n', *policies), rows)}"


def span(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def outcomes_table(outcomes: Sequence[OutcomeFigure]) -> str:
    """Return why episodes were worth what they were, or nothing before the first."""
    if not outcomes:
        return ""
    rows = [
        (each.purpose, each.outcome, "" if each.rewarded else "no reward", f"{each.episodes:,}") for each in outcomes
    ]
    return table(("episodes of", "outcome", "", "episodes"), rows)


def calls_table(calls: Sequence[CallFigure]) -> str:
    if not calls:
        return ""
    rows = [
        (
            call.model,
            call.role,
            "counted" if call.counted else "repeated or lost",
            f"{call.calls:,}",
            f"{call.errors:,}",
            f"{call.tokens:,}",
            f"{call.usd:.6f}",
        )
        for call in calls
    ]
    usd = sum((call.usd for call in calls), Decimal(0))
    sums = [f"{sum(getattr(call, name) for call in calls):,}" for name in ("calls", "errors", "tokens")]
    rows.append(("all", "", "", sums[0], sums[1], sums[2], f"{usd:.6f}"))
    bold = [False] * len(calls) + [True]
    return table(("model", "role", "attempts", "calls", "errors", "tokens", "USD"), rows, bold)


def reproduce(facts: CampaignFacts) -> str:
    settings = [(heading, text) for heading, text in facts.settings.items()]
    commands = "\n".join(facts.commands)
    specification = json.dumps(facts.specification, indent=2, ensure_ascii=False)
    return (
        f"{table(('what', 'value'), settings)}<pre>{escape(commands)}</pre>"
        f"<details><summary>Resolved specification</summary><pre>{escape(specification)}</pre></details>"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool] = ()) -> str:
    """Return a table; columns whose cells all begin like a number are aligned to the right."""
    right = [bool(rows) and all(is_figure(row[at]) for row in rows) for at in range(len(columns))]
    head = "".join(cell("th", text, number) for text, number in zip(columns, right, strict=True))
    lines = []
    for index, row in enumerate(rows):
        kind = " class=strong" if index < len(bold) and bold[index] else ""
        cells = "".join(cell("td", text, number) for text, number in zip(row, right, strict=True))
        lines.append(f"<tr{kind}>{cells}</tr>")
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def is_figure(text: str) -> bool:
    return text[:1].isdigit() or text in ("", "-")


def cell(tag: str, text: str, number: bool) -> str:
    return f"<{tag}{' class=number' if number else ''}>{escape(text)}</{tag}>"
