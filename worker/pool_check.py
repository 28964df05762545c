"""``python -m worker.pool_check FILE``: a campaign's models as a worker on this machine would find them.

JSON on stdout. A process of its own, because the command line loads no model client.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from services.config import campaign as campaign_file
from services.config.settings import Settings, load_settings
from services.core.campaign import ModelSpec, ProtocolSpec
from services.core.errors import TrinityError
from services.pool.litellm_client import LitellmPool
from services.pool.probe import Probe, probe
from services.pool.readiness import Readiness, readiness
from services.telemetry import logs


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 with JSON on stdout, 1 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m worker.pool_check", description="Check a campaign's models.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--max-usd", type=Decimal, required=True)
    parser.add_argument("--dry", action="store_true")
    given = parser.parse_args(arguments)
    try:
        settings = load_settings()
        logs.configure(settings.log_level, as_json=settings.log_json)
        found = check(given.file, settings, os.environ, None if given.dry else given.max_usd)
    except TrinityError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(json.dumps(found, allow_nan=False) + "\n")
    return 0


def check(path: Path, settings: Settings, environment: Mapping[str, str], limit: Decimal | None) -> dict[str, Any]:
    """Return what was found; without a limit nothing is sent.

    Raises:
        SpecError, UnknownPrice: the campaign file is wrong.
    """
    file = campaign_file.load(path, settings.path_variables(environment))
    models, protocol = campaign_file.models(file), campaign_file.protocol(file)
    ready = [readiness(each, environment, protocol.max_output_tokens, protocol.temperature) for each in models]
    probes = [] if limit is None else _probes(models, ready, protocol, settings, environment, limit)
    faults = [each for each in probes if not each.compliant]
    spent = sum((each.cost for each in probes), Decimal(0))
    return {
        "campaign": file.name,
        "dry": limit is None,
        "ok": not faults and not any(each.missing for each in ready),
        "max_usd": None if limit is None else f"{limit:f}",
        "spent_usd": f"{spent:f}",
        "models": [_model(*each, probes) for each in zip(models, ready, strict=True)],
    }


def _probes(
    models: Sequence[ModelSpec],
    ready: Sequence[Readiness],
    protocol: ProtocolSpec,
    settings: Settings,
    environment: Mapping[str, str],
    limit: Decimal,
) -> list[Probe]:
    asked = [model for model, state in zip(models, ready, strict=True) if not state.missing]
    if not asked:
        return []
    return probe(LitellmPool(asked, settings.resolve_base_url, environment), asked, protocol, limit)


def _model(model: ModelSpec, ready: Readiness, probes: Sequence[Probe]) -> dict[str, Any]:
    own = [each for each in probes if each.model == model.name]
    return {
        "name": model.name,
        "model": model.litellm_model,
        "missing": list(ready.missing),
        "notes": list(ready.notes),
        "outcomes": dict(Counter(each.outcome for each in own)),
        "roles": [_role(each) for each in own],
    }


def _role(each: Probe) -> dict[str, Any]:
    usage = each.usage
    return {
        "role": each.role.value,
        "outcome": each.outcome,
        "compliant": each.compliant,
        "remark": each.remark,
        "latency_seconds": None if each.latency_seconds is None else round(each.latency_seconds, 3),
        "prompt_tokens": None if usage is None else usage.prompt_tokens,
        "cached_prompt_tokens": None if usage is None else usage.cached_prompt_tokens,
        "completion_tokens": None if usage is None else usage.completion_tokens,
        "reasoning_tokens": None if usage is None else usage.reasoning_tokens,
        "estimated": usage is not None and usage.estimated,
        "cost_usd": f"{each.cost:f}",
    }


if __name__ == "__main__":
    sys.exit(main())
