"""``python -m services.diagnosis CAMPAIGN``: diagnose, write the folder, print the figures as JSON on stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from services.config.settings import Settings, load_settings
from services.core.errors import TrinityError
from services.diagnosis import reading
from services.diagnosis.evidence import Evidence
from services.local import endpoints
from services.reports.diagnosis import Diagnosis
from services.storage import schema
from services.storage.engine import Database


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 with JSON on stdout, 1 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m services.diagnosis", description="Diagnose a campaign.")
    parser.add_argument("campaign")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--problems", type=int, required=True)
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        found = run(settings, of_campaign(settings, options.campaign), options.problems, options.output)
    except TrinityError as error:
        progress(f"error: {error}")
        return 1
    sys.stdout.write(json.dumps(found.to_json(), allow_nan=False) + "\n")
    return 0


def of_campaign(settings: Settings, name: str) -> Evidence:
    """Read a campaign from the configured database."""
    url = endpoints.database_url(settings.database_url, settings.var_dir)
    database = Database(url, application_name="trinity diagnosis", pool_size=1)
    try:
        with database.transaction() as conn:
            schema.check(conn)
        return reading.of_campaign(database, name)
    finally:
        database.close()


def run(settings: Settings, evidence: Evidence, limit: int, folder: Path | None) -> Diagnosis:
    """Diagnose, and write page, figures and plots unless no folder is wanted."""
    # Torch and scikit-learn take seconds to import: a wrong name is told without them.
    from services.diagnosis.composition import diagnose
    from services.encoder.coordinator import EncoderService
    from services.encoder.slm import chosen
    from services.reports import diagnosis_page

    with EncoderService(
        settings.models_folder(),
        device=chosen(settings.device),
        memory_bytes=settings.encoder_memory_mb << 20,
        threads=settings.encoder_threads,
        parallel=settings.encoder_parallel,
        cache_file=settings.var_dir / "cache" / "states.sqlite",
        announce=progress,
    ) as encoders:
        encoder = encoders.encoder(evidence.campaign.encoder, len(evidence.campaign.pool))
        found, plots = diagnose(evidence, encoder, limit, progress)
    if folder is not None:
        progress(f"written: {diagnosis_page.write(found, plots, folder)}")
    return found


def progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
