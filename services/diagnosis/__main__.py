"""``python -m services.diagnosis CAMPAIGN|FOLDER``: diagnose, write the page, print the figures as JSON on stdout."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.config.settings import Settings, load_settings
from services.core.errors import SpecError, TrinityError
from services.diagnosis import checkpoints, reading
from services.diagnosis.evidence import Evidence
from services.local import endpoints
from services.reports.diagnosis import Diagnosis
from services.storage import schema
from services.storage.engine import Database


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 with JSON on stdout, 1 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m services.diagnosis", description="Diagnose a coordinator.")
    parser.add_argument("subject", help="a campaign's name or a checkpoint folder")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--problems", type=int, required=True)
    parser.add_argument("--problems-from", type=Path, help="a campaign file, beside a checkpoint folder")
    parser.add_argument("--campaign", help="a submitted campaign, beside a checkpoint folder")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        evidence = evidence_of(settings, options.subject, options.problems_from, options.campaign)
        found = run(settings, evidence, options.problems, options.output)
    except TrinityError as error:
        progress(f"error: {error}")
        return 1
    sys.stdout.write(json.dumps(found.to_json(), allow_nan=False) + "\n")
    return 0


def evidence_of(settings: Settings, subject: str, file: Path | None, campaign: str | None) -> Evidence:
    """Read a campaign from the configured database, or a checkpoint folder and problems from a file or a campaign."""
    if checkpoints.is_checkpoint(subject):
        return of_checkpoint(settings, subject, file, campaign)
    for option, value in (("--problems-from", file), ("--campaign", campaign)):
        if value is not None:
            raise SpecError(option, str(value), f"a checkpoint folder beside it; {subject} is a campaign's name")
    with opened(settings) as database:
        return reading.of_campaign(database, subject)


def of_checkpoint(settings: Settings, folder: str, file: Path | None, campaign: str | None) -> Evidence:
    checkpoint = checkpoints.read(folder)
    if (file is None) == (campaign is None):
        got = "nothing" if file is None else f"{file} and campaign {campaign}"
        raise SpecError("problems", got, "one of --problems-from CAMPAIGN_FILE and --campaign NAME: a folder has none")
    if file is not None:
        variables = settings.path_variables(os.environ)
        problems = checkpoints.problems_of_file(file, variables, checkpoints.names_of(checkpoint))
        return checkpoints.of_checkpoint(checkpoint, problems, str(file))
    with opened(settings) as database:
        problems = checkpoints.problems_of_campaign(database, str(campaign))
    return checkpoints.of_checkpoint(checkpoint, problems, f"campaign {campaign}")


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """Yield the configured database once it has the schema of this code."""
    url = endpoints.database_url(settings.database_url, settings.var_dir)
    database = Database(url, application_name="trinity diagnosis", pool_size=1)
    try:
        with database.transaction() as conn:
            schema.check(conn)
        yield database
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
        memory_bytes=settings.encoder_memory_bytes(),
        threads=settings.encoder_threads,
        parallel=settings.encoder_parallel,
        cache_file=settings.var_dir / "cache" / "states.sqlite",
        announce=progress,
    ) as encoders:
        encoder = encoders.encoder(evidence.encoder, len(evidence.agents))
        if evidence.reading is not None:
            evidence.reading.require(encoder.fingerprint(), evidence.subject)
        if encoder.hidden_size != evidence.layout.hidden:
            raise SpecError("layout.hidden", evidence.layout.hidden, f"{encoder.hidden_size}, the encoder's")
        found, plots = diagnose(evidence, encoder, limit, progress)
    if folder is not None:
        progress(f"written: {diagnosis_page.write(found, plots, folder)}")
    return found


def progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
