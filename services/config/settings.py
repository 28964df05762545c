"""Settings of a process, read from ``TRINITY_...`` environment variables by the composition roots only."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.config.messages import masked, wanted_of
from services.core.errors import SpecError

PREFIX = "TRINITY_"
LOCAL_PREFIX = "local:"
DATABASE_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
BROKER_SCHEMES = ("redis", "rediss", "amqp", "amqps")


def _url(value: str, schemes: tuple[str, ...]) -> str:
    wanted = f"a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    try:
        scheme = urlsplit(value).scheme
    except ValueError as error:
        raise ValueError(wanted) from error
    if scheme not in schemes or "://" not in value:
        raise ValueError(wanted)
    return value


def _database_url(value: str) -> str:
    return _url(value, DATABASE_SCHEMES)


def _broker_url(value: str) -> str:
    return _url(value, BROKER_SCHEMES)


def _http_url(value: str) -> str:
    return _url(value, ("http", "https")).rstrip("/")


def _user(value: str) -> str:
    if not value or ":" in value or any(character.isspace() for character in value):
        raise ValueError("a name without colons and spaces")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,3})?", value):
        raise ValueError("auto, cpu, cuda or one GPU such as cuda:1")
    return value


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Every setting with its default; ``infra/env.example`` explains each to operators.

    An empty variable counts as unset, because compose files pass unset variables on as empty ones.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True,
        protected_namespaces=(),
    )  # fmt: skip

    database_url: Annotated[str, AfterValidator(_database_url)] | None = None
    broker_url: Annotated[str, AfterValidator(_broker_url)] | None = None
    var_dir: Path = Path("var")
    data_dir: Path | None = None
    benchmark_dir: Path | None = None
    hub_url: Annotated[str, AfterValidator(_http_url)] = "https://huggingface.co"
    model_dir: Path | None = None
    local_pool: bool = True
    local_pool_url: Annotated[str, AfterValidator(_http_url)] = "http://127.0.0.1:8790"
    local_pool_dir: Path = Path("infra/pools")
    worker_slots: int = Field(default=16, ge=1, le=1000)
    workers: int = Field(default=1, ge=0, le=1000)
    lease_seconds: Seconds = 60.0
    heartbeat_seconds: Seconds = 15.0
    drain_seconds: Seconds = 25.0
    poll_seconds: Seconds = 0.25
    republish_seconds: Seconds = 60.0
    dispatch_window: int = Field(default=64, ge=1, le=100_000)
    encoder_threads: int = Field(default=1, ge=1, le=256)
    encoder_parallel: int = Field(default=2, ge=1, le=256)
    encoder_memory_mb: int | None = Field(default=None, ge=0, le=1_048_576)
    device: Annotated[str, AfterValidator(_device)] = "auto"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65_535)
    sandbox_required: bool = False
    sandbox_python: Path | None = None
    flower_host: str = "127.0.0.1"
    flower_port: int = Field(default=5555, ge=1, le=65_535)
    flower_user: Annotated[str, AfterValidator(_user)] = "trinity"
    flower_password: SecretStr | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool = False

    def models_folder(self) -> Path:
        """Return where encoder weights are kept."""
        return self.model_dir or self.var_dir / "models"

    def encoder_memory_bytes(self) -> int | None:
        """Return the bound of what an encoder remembers; None for the one that suits its device."""
        return None if self.encoder_memory_mb is None else self.encoder_memory_mb << 20

    def benchmarks_folder(self) -> Path:
        """Return where each benchmark has its folder."""
        return self.benchmark_dir or self.var_dir / "benchmarks"

    def path_variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what ``${NAME}`` in campaign and pool files stands for: the environment and the folders of data."""
        own = {} if self.data_dir is None else {f"{PREFIX}DATA_DIR": str(self.data_dir.absolute())}
        return {**environ, **own, f"{PREFIX}BENCHMARK_DIR": str(self.benchmarks_folder().absolute())}

    def resolve_base_url(self, base_url: str | None) -> str | None:
        """Return the address of a pool model, with ``local:NAME`` turned into this machine's pool server."""
        if base_url is None or not base_url.startswith(LOCAL_PREFIX):
            return base_url
        return f"{self.local_pool_url}/{base_url.removeprefix(LOCAL_PREFIX)}/v1"


def load_settings() -> Settings:
    """Read the environment.

    Raises:
        SpecError: a variable has a value that its setting does not allow; secrets are not repeated.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        faults = [_fault(detail) for detail in error.errors(include_url=False)]
    else:
        return _consistent(settings)
    path, got, wanted = faults[0]
    more = "".join(f"; also {where}: got {value!r}, wanted {what}" for where, value, what in faults[1:])
    raise SpecError(path, got, wanted + more)


def _fault(detail: ErrorDetails) -> tuple[str, object, str]:
    name = str(detail["loc"][0])
    return f"{PREFIX}{name.upper()}", masked((name,), detail["input"]), wanted_of(detail)


def _consistent(settings: Settings) -> Settings:
    if settings.heartbeat_seconds * 2 > settings.lease_seconds:
        wanted = f"at most half of {PREFIX}LEASE_SECONDS, {settings.lease_seconds:g}: one late heartbeat loses no lease"
        raise SpecError(f"{PREFIX}HEARTBEAT_SECONDS", settings.heartbeat_seconds, wanted)
    return settings


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the TRINITY_ variables that are no setting, each with the setting it may have been meant for."""
    known = [name.upper() for name in Settings.model_fields]
    strange = sorted(name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX))
    guesses = {name: difflib.get_close_matches(name, known, n=1) for name in strange if name not in known}
    return {PREFIX + name: PREFIX + guess[0] if guess else None for name, guess in guesses.items()}
