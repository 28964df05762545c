"""What is searched, in words."""

from __future__ import annotations

from dataclasses import replace

from services.cli import candidates
from services.core.campaign import (
    EncoderSpec,
    HeadKind,
    HeadSpec,
    Norm,
    Notes,
    Output,
    ProtocolSpec,
    SearchSpec,
    StepSize,
)
from services.core.protocol.roles import Role
from services.encoder.catalogue import BUNDLED, KNOWN
from tests.support.campaigns import small_campaign

SIZES = "population 34, 16 replicates, 60 generations"


def test_a_plain_head() -> None:
    assert candidates.lines(small_campaign())[1:] == [
        ("encoder", "smollm2-135m-instruct, penultimate position"),
        ("matrices", "none"),
        ("head", "linear, softmax output"),
        ("theta", "dimension 20 = head 20; 2 agents + 3 roles"),
        ("protocol", "worker, thinker, verifier; at most 2 turns; notes of all roles"),
        ("search", "population 4, 3 replicates, 2 generations, sigma 0.1 by tpa, common minibatch"),
    ]


def test_matrices_masks_and_every_option() -> None:
    nine = KNOWN[BUNDLED].matrices("authors_nine")
    campaign = replace(
        small_campaign(
            protocol=ProtocolSpec(agents=("bob",), roles=(Role.WORKER,), notes=Notes.WORKER),
            search=SearchSpec(34, 16, 60, 0.03, "fresh", StepSize.CSA, mean_rate=0.5, antithetic=True, turn_bonus=0.1),
        ),
        encoder=EncoderSpec(BUNDLED, position="last", center=True, norm=Norm.RMS, singular_values=nine),
        hidden_size=576,
    )
    assert candidates.lines(campaign)[1:] == [
        ("encoder", "smollm2-135m-instruct, last position, centred, rms norm"),
        (
            "matrices",
            "9: embed_tokens, layers.28 (q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj), lm_head",
        ),
        ("head", "linear, softmax output"),
        ("theta", "dimension 4,992 = svf 4,416 + head 576; 1 agent"),
        ("protocol", "worker; at most 5 turns; only bob; notes of Workers alone"),
        ("search", f"{SIZES}, sigma 0.03 by csa, mean rate 0.5, antithetic pairs, fresh minibatch, turn bonus 0.1"),
    ]
    head = HeadSpec(HeadKind.LOW_RANK, Output.ARGMAX, 20)
    assert candidates.head_text(head) == "low_rank of rank 20, argmax output"
