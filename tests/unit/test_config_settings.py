"""Settings from the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from services.config.settings import PREFIX, Settings, load_settings, unknown_variables
from services.core.errors import SpecError

Set = Callable[..., None]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Set:
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)

    def set_variables(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(PREFIX + name.upper(), value)

    return set_variables


def test_an_empty_environment_gives_the_defaults(environment: Set) -> None:
    settings = load_settings()
    assert settings.database_url is None
    assert settings.models_folder() == Path("var/models")
    assert settings.local_pool is True


def test_values_are_converted(environment: Set) -> None:
    environment(workers="3", log_json="true", var_dir="/srv/trinity", poll_seconds="0.5", database_url="postgres://h/d")
    settings = load_settings()
    assert (settings.workers, settings.log_json, settings.poll_seconds) == (3, True, 0.5)
    assert settings.models_folder() == Path("/srv/trinity/models")


def test_an_empty_variable_counts_as_unset(environment: Set) -> None:
    environment(database_url="", workers="")
    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("workers", "many", "got 'many', wanted a whole number"),
        ("workers", "-1", "at least 0"),
        ("poll_seconds", "nan", "finite"),
        ("log_level", "loud", "'debug'"),
        ("device", "gpu", "auto, cpu, cuda or one GPU"),
        ("log_json", "perhaps", "true or false"),
        ("flower_user", "a:b", "without colons"),
        ("broker_url", "http://h", "redis://"),
        ("local_pool_url", "localhost:8790", "http://"),
        ("lease_seconds", "20", "at most half of TRINITY_LEASE_SECONDS"),
    ],
)
def test_a_bad_value_names_its_variable(environment: Set, name: str, value: str, words: str) -> None:
    environment(**{name: value})
    with pytest.raises(SpecError) as caught:
        load_settings()
    variable = "heartbeat_seconds" if name == "lease_seconds" else name
    assert caught.value.path == PREFIX + variable.upper()
    assert words in str(caught.value)


def test_a_bad_url_is_not_repeated(environment: Set) -> None:
    environment(database_url="mysql://me:SECRET@host/db", broker_url="SECRET")
    with pytest.raises(SpecError) as caught:
        load_settings()
    assert "SECRET" not in str(caught.value)
    assert "TRINITY_BROKER_URL" in str(caught.value)


def test_a_password_is_not_shown(environment: Set) -> None:
    environment(flower_password="SECRET")
    settings = load_settings()
    assert "SECRET" not in repr(settings)
    assert settings.flower_password is not None
    assert settings.flower_password.get_secret_value() == "SECRET"


def test_misspelt_variables_are_found() -> None:
    environ = {"TRINITY_WORKRES": "2", "TRINITY_WORKERS": "2", "HOME": "/", "TRINITY_ZZZ": ""}
    assert unknown_variables(environ) == {"TRINITY_WORKRES": "TRINITY_WORKERS", "TRINITY_ZZZ": None}


def test_the_data_folder_reaches_the_files(environment: Set) -> None:
    environment(data_dir="/data")
    benchmarks = {"TRINITY_BENCHMARK_DIR": str(Path("var/benchmarks").absolute())}
    assert load_settings().path_variables({"A": "b"}) == {"A": "b", "TRINITY_DATA_DIR": "/data", **benchmarks}
    assert Settings(data_dir=None).path_variables({"A": "b"}) == {"A": "b", **benchmarks}
    own = Settings(benchmark_dir=Path("/sets")).path_variables({})
    assert own["TRINITY_BENCHMARK_DIR"] == "/sets"


def test_local_addresses_are_resolved(environment: Set) -> None:
    settings = Settings(local_pool_url="http://127.0.0.1:9/")
    assert settings.resolve_base_url("local:x") == "http://127.0.0.1:9/x/v1"
    assert settings.resolve_base_url("https://h/v1") == "https://h/v1"
    assert settings.resolve_base_url(None) is None
