from __future__ import annotations

import pytest

from scheduler.health import AT_LEAST, trouble
from services.core.ids import CampaignId
from services.storage.failures import Ended


def ended(attempts: int, **failed: int) -> Ended:
    return Ended(CampaignId(1), "0" * 64, attempts, failed)


def test_the_reason_names_the_kinds_and_what_to_do() -> None:
    reason = trouble(ended(20, ProviderUnavailable=10, LeaseExpired=2), 0.5)
    assert reason == (
        "12 of the newest 20 attempts failed (ProviderUnavailable 10, LeaseExpired 2); nothing was counted; "
        "see `manage.py campaign show`"
    )


@pytest.mark.parametrize(
    ("attempts", "failed", "share", "pauses"),
    [
        (AT_LEAST - 1, AT_LEAST - 1, 0.5, False),
        (AT_LEAST, 10, 0.5, False),
        (AT_LEAST, 11, 0.5, True),
        (50, 1, 0.0, True),
        (50, 50, 1.0, False),
    ],
)
def test_a_campaign_pauses_above_its_share_of_failures(attempts: int, failed: int, share: float, pauses: bool) -> None:
    assert (trouble(ended(attempts, E=failed), share) is not None) is pauses
