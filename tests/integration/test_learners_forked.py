"""Forks of campaigns with labels and with learners that have a memory."""

from __future__ import annotations

import pytest

from services.cli.forking import fork
from services.cli.releasing import release
from services.core.errors import SpecError
from services.core.policy.layout import Layout
from services.core.states import CampaignState
from services.storage.engine import Database
from tests.integration.test_learners import CAMPAIGNS
from tests.support.auditing import assert_clean
from tests.support.campaigns import submit
from tests.support.rehearsal import rehearsal


@pytest.mark.parametrize("name", ["warm_reinforce", "labelled"])
def test_a_fork_labels_anew_and_goes_on_from_its_origin(database: Database, name: str) -> None:
    campaign_id = submit(database, CAMPAIGNS[name])
    with rehearsal(database, amnesia=True) as at:
        at.run(campaign_id)
        made = fork(database, CAMPAIGNS[name].name, None, "fork", ["search.generations=1"])
        assert made.generation == 3, "the last training generation"
        at.run(made.id)
        assert at.state(made.id) is CampaignState.COMPLETED
        origin, (labelling, first, *_) = at.history(campaign_id)[3], at.history(made.id)
    assert first.mean.tobytes() == labelling.mean.tobytes() == origin.mean.tobytes()
    assert_clean(database)


def test_the_mean_of_a_labelling_generation_can_be_released(database: Database) -> None:
    campaign_id = submit(database, CAMPAIGNS["labelled"])
    with rehearsal(database) as at:
        at.step(campaign_id)
    released = release(database, "sep-cma-es-zero", None, "by-hand")
    assert (released.generation, released.validation) == (0, None)
    assert_clean(database)


@pytest.mark.parametrize(
    ("name", "changes", "wanted"),
    [
        ("sft", [], "what is fitted to labels goes on from nothing"),
        ("reinforce", ['search.algorithm="sep_cma_es"'], "its step size is none for another search"),
        ("labelled", ['search.algorithm="sft"'], "what is fitted to labels"),
        ("labelled", ['search.algorithm="reinforce"', "search.entropy_bonus=0.1"], r"see reinforce\.entropy"),
        ("warm", ["labels.problems=0"], "at least 4: search.start sft is fitted"),
        ("labelled", ["labels.problems=7"], "at most the 6 training problems"),
    ],
)
def test_what_a_fork_cannot_learn_is_refused(database: Database, name: str, changes: list[str], wanted: str) -> None:
    campaign = CAMPAIGNS[name]
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.run(campaign_id)
    with pytest.raises(SpecError, match=wanted):
        fork(database, campaign.name, None, "fork", changes)


def test_a_search_may_go_on_as_a_learner(database: Database) -> None:
    campaign = CAMPAIGNS["labelled"]
    campaign_id = submit(database, campaign)
    with rehearsal(database) as at:
        at.run(campaign_id)
        made = fork(database, campaign.name, 2, "fork", ['search.algorithm="reinforce"'])
        at.run(made.id)
        first = at.history(made.id)[1]
        assert first.mean.tobytes() == at.history(campaign_id)[2].mean.tobytes()
    assert Layout.of_campaign(campaign).size == len(first.mean)
    assert_clean(database)
