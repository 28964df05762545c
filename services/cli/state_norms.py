"""How long an encoder's states are, measured in a process of its own: the command line loads no model."""

from __future__ import annotations

import json
import math
import subprocess
import sys

from services.config.settings import Settings
from services.core.campaign import EncoderSpec
from services.core.errors import PrerequisiteMissing


def median_state_norm(encoder: EncoderSpec, agents: int, settings: Settings) -> float:
    """Return the median norm of the states that the encoder gives the reference questions; takes some seconds.

    Args:
        encoder: as the campaign has it, centring and norm included.
        agents: number of models in the pool, which the router's instruction names.
        settings: where the weights lie or will lie.

    Raises:
        PrerequisiteMissing: the model cannot be had or measured; the process has said why.
    """
    argv = [sys.executable, "-m", "services.encoder", "norms", encoder.model]
    argv += ["--model-dir", str(settings.models_folder()), "--agents", str(agents), "--position", encoder.position]
    argv += ["--max-tokens", str(encoder.max_tokens), "--item-tokens", str(encoder.item_tokens)]
    argv += ["--norm", encoder.norm] + ["--center"] * encoder.center
    if encoder.revision is not None:
        argv += ["--revision", encoder.revision]
    outcome = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    norm = float(json.loads(outcome.stdout)["median_norm"]) if outcome.returncode == 0 else math.nan
    if not 0 < norm < math.inf:
        cure = "cure what the line above names, or give `search.sigma0` instead of `search.logit_sigma0`"
        raise PrerequisiteMissing(f"the states of the encoder {encoder.model} cannot be measured", cure)
    return norm
