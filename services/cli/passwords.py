"""Flower's password: given by the environment, or made once and kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from services.config.settings import Settings
from services.core.errors import PrerequisiteMissing


def password_file(settings: Settings) -> Path:
    return settings.var_dir / "run" / "flower.password"


def flower_password(settings: Settings) -> str:
    """Return the password, making and storing one at the first call when none is set."""
    if settings.flower_password is not None:
        return settings.flower_password.get_secret_value()
    path = password_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return stored(path)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(18) + "\n")
    return stored(path)


def stored(path: Path) -> str:
    """Return the stored password; PrerequisiteMissing for an empty file, which would mean no password at all."""
    password = path.read_text().strip()
    if not password:
        raise PrerequisiteMissing(f"{path} holds no password", "delete it, or set TRINITY_FLOWER_PASSWORD")
    return password
