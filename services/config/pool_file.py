"""Pool files: the local pools that ``manage.py pool serve`` offers, from YAML to the records of ``services.core``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from services.config.fields import Surroundings
from services.config.messages import spec_error
from services.config.pool_sections import RecordingSection, ReplaySection, SimulatedSection
from services.config.settings import LOCAL_PREFIX
from services.config.yaml_reader import ABSENT, Document, parse, read_text
from services.core.campaign import Campaign
from services.core.errors import SpecError
from services.core.local_pool import LocalPool, SimulatedPool


def load(path: Path, variables: Mapping[str, str] | None = None) -> LocalPool:
    """Read one pool file; ``variables`` (default: the environment) stand for ``${NAME}`` in its paths.

    Raises:
        SpecError: names the field and its line, what was got and what is wanted.
    """
    document = parse(read_text(path), path.name)
    surroundings = Surroundings(path.parent.absolute(), os.environ if variables is None else variables)
    section = _section(document, surroundings)
    if section.name != path.stem:
        raise SpecError(document.where(("name",)), section.name, f"{path.stem}, the file's own name")
    return section.record()


def _section(document: Document, surroundings: Surroundings) -> SimulatedSection | ReplaySection | RecordingSection:
    kinds: dict[str, type[SimulatedSection] | type[ReplaySection] | type[RecordingSection]]
    kinds = {"simulated": SimulatedSection, "replay": ReplaySection, "recording": RecordingSection}
    kind = document.value.get("kind", ABSENT)
    if not isinstance(kind, str) or kind not in kinds:
        raise SpecError(document.where(("kind",)), kind, f"one of {', '.join(kinds)}")
    try:
        return kinds[kind].model_validate(document.value, context=surroundings)
    except ValidationError as error:
        raise spec_error(error, document, kinds[kind]) from None


def load_pools(folder: Path, variables: Mapping[str, str] | None = None) -> dict[str, LocalPool]:
    """Read every ``*.yaml`` of a folder, by name. Raises SpecError at the first file that is wrong."""
    if not folder.is_dir():
        raise SpecError(str(folder), "no such folder", "a folder with pool files")
    return {path.stem: load(path, variables) for path in sorted(folder.glob("*.yaml"))}


def model_names(pool: LocalPool) -> tuple[str, ...]:
    return tuple(model.name for model in pool.models) if isinstance(pool, SimulatedPool) else pool.models


def require_local_models(campaign: Campaign, pools: Mapping[str, LocalPool]) -> None:
    """Raise SpecError unless every ``local:`` model of the campaign is offered by the pool that it names."""
    for index, model in enumerate(campaign.pool):
        if model.base_url is None or not model.base_url.startswith(LOCAL_PREFIX):
            continue
        name = model.base_url.removeprefix(LOCAL_PREFIX)
        if name not in pools:
            raise SpecError(f"pool.{index}.base_url", model.base_url, f"a pool among {', '.join(pools) or 'none'}")
        asked = model.litellm_model.partition("/")[2]
        if asked not in model_names(pools[name]):
            offered = ", ".join(f"openai/{one}" for one in model_names(pools[name]))
            raise SpecError(f"pool.{index}.model", model.litellm_model, f"a model of the pool {name}: {offered}")
