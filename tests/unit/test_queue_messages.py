from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.ids import EpisodeId
from services.core.states import Purpose
from services.queue.app import make_app
from services.queue.messages import EpisodeMessage, UnknownMessage
from services.queue.names import QUEUES, queue_for


@given(st.integers(min_value=1, max_value=2**63 - 1))
def test_a_message_survives_the_wire(number: int) -> None:
    message = EpisodeMessage(EpisodeId(number))
    assert EpisodeMessage.from_kwargs(message.to_kwargs()) == message


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"version": 1},
        {"version": 2, "episode_id": 1},
        {"version": 1, "episode_id": "1"},
        {"version": 1, "episode_id": True},
        {"version": 1, "episode_id": 0},
        {"version": 1, "episode_id": 1.0},
    ],
)
def test_a_message_of_another_version_or_form_is_refused(kwargs: dict[str, object]) -> None:
    with pytest.raises(UnknownMessage):
        EpisodeMessage.from_kwargs(kwargs)


def test_every_purpose_has_a_declared_queue() -> None:
    assert {queue_for(purpose) for purpose in Purpose} == set(QUEUES)


def test_the_settings_that_correctness_rests_on() -> None:
    app = make_app("redis://127.0.0.1:1/0")
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_ignore_result is True
    assert app.conf.result_backend is None
    assert app.conf.task_acks_late is False
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.broker_transport_options["ack_emulation"] is False


def test_the_application_never_becomes_the_current_one() -> None:
    from celery import current_app

    assert make_app("redis://127.0.0.1:1/0") is not current_app._get_current_object()
