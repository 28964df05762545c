"""The whole diagnosis from the evidence: which sections there are, in which order, with which plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from services.core.problem import Problem, Split
from services.core.protocol.ports import StateEncoder
from services.core.protocol.transcript import Transcript
from services.core.statistics.geometry import principal_plane
from services.diagnosis import blocks, choices, first_turn, noise, propositions, reinforce, states, stepping, table
from services.diagnosis.encoding import chosen, states_of
from services.diagnosis.evidence import Evidence
from services.reports import diagnosis_plots as plots
from services.reports.diagnosis import Diagnosis, Section, missing

Announce = Callable[[str], None]
Encode = Callable[[Sequence[Transcript]], NDArray[np.float64]]

LOG = "Log of the search"
OF_LOG = ("choices over generations", "fitness noise", "steps of the search", "REINFORCE", "proposition 1")
NO_LOG = "a checkpoint does not hold the log of its search; diagnose the campaign where it was trained"


def diagnose(
    evidence: Evidence, encoder: StateEncoder, limit: int, announce: Announce
) -> tuple[Diagnosis, dict[str, bytes]]:
    """Return the diagnosis and its plots, file name -> PNG.

    Args:
        evidence: the subject.
        encoder: reads its conversations.
        limit: questions that are read at most, for the states and for each split of an answer table.
        announce: told in one line about each slow step.
    """

    def encode(transcripts: Sequence[Transcript]) -> NDArray[np.float64]:
        return states_of(encoder, transcripts, evidence.offsets, announce)

    announce(f"reading questions with the vector of {evidence.vector}")
    found = of_questions(evidence, encode, limit)
    measured = noise.measure(evidence)
    sections = [
        states.separability(found, evidence.seed),
        states.shape(found, evidence, evidence.seed),
        *of_log(evidence, measured, encode, announce),
        first_turn.section(evidence, found),
    ]
    drawn = dict(pictures(evidence, found))
    reason = evidence.no_table()
    tables = None if reason else of_answers(evidence, encode, limit)
    announce("answer table: " + (reason or "objective, curvature and heads"))
    sections += table_sections(evidence, tables, reason)
    if evidence.logged is not None:
        sections.append(propositions.section(evidence, measured, tables, reason))
    if tables is not None and evidence.trace.means and len(tables.heldout.states):
        drawn["objective.png"] = plots.objective(table.curve(evidence, tables.heldout).rows)
    return Diagnosis(evidence.subject, evidence.vector, tuple(sections), tuple(drawn)), drawn


def of_log(evidence: Evidence, measured: noise.Noise | None, encode: Encode, announce: Announce) -> list[Section]:
    """Return the sections that are made from the search's log, or one that says that there is none."""
    if evidence.logged is None:
        return [Section(LOG, tuple(missing(name, NO_LOG) for name in OF_LOG))]
    announce("estimating noise and steps")
    sections = [choices.section(evidence), noise.section(evidence, measured), stepping.section(evidence)]
    announce("reading logged conversations")
    return [*sections, reinforce.section(evidence, encode)]


def of_questions(evidence: Evidence, encode: Encode, limit: int) -> states.Read:
    """Read questions of all splits, each text once."""
    everything = [problem for split in Split for problem in evidence.problems.get(split, ())]
    distinct = list({problem.question: problem for problem in everything}.values())
    problems = chosen(distinct, limit, evidence.seed)
    return states.read(evidence, problems, encode([Transcript(problem.question) for problem in problems]))


def of_answers(evidence: Evidence, encode: Encode, limit: int) -> table.Tables:
    """Read the questions of the answer tables."""
    by_split = {split: chosen(evidence.problems.get(split, ()), limit, evidence.seed) for split in Split}

    def states_of_problems(problems: Sequence[Problem]) -> NDArray[np.float64]:
        return encode([Transcript(problem.question) for problem in problems])

    return table.build(evidence, by_split, states_of_problems)


def table_sections(evidence: Evidence, tables: table.Tables | None, reason: str) -> list[Section]:
    """Return the sections that need recorded answers, or one that says why there are none."""
    if tables is None or not len(tables.training.states):
        name = "exact J, gradient, epsilon_H, head-level test"
        return [Section(table.TITLE, (missing(name, reason or "no training questions"),))]
    start = table.head_of(evidence, evidence.trace.means[0] if evidence.trace.means else None)
    at_start = blocks.section(evidence, tables.training, start, "at the start")
    at_end = blocks.section(evidence, tables.training, evidence.head, "at the diagnosed vector")
    return [table.section(evidence, tables), at_start, at_end, table.heads(evidence, tables)]


def pictures(evidence: Evidence, found: states.Read) -> Mapping[str, bytes]:
    """Return the plots of states and choices."""
    drawn: dict[str, bytes] = {}
    if len(found.states) > 2:
        plane, variances = principal_plane(found.states)
        drawn["states.png"] = plots.plane(plane, found.families, variances)
    if evidence.choices:
        rows, what = choices.final(evidence)
        drawn["choices.png"] = plots.choices(choices.agent_shares(rows, evidence.agents), evidence.agents, what)
    return drawn
