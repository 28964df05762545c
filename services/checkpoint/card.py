"""The model card, ``README.md``: what a person wants to know before they use a coordinator."""

from __future__ import annotations

from services.checkpoint.description import Description, Score
from services.core.campaign import Notes, Output

LIMITS = """\
* It works only with the encoder named above, read in the same way, and with these models in this order: what it reads
  names no model, and its choice is a place in the pool.
* It was trained on the campaign's problems and on what these models answered then. Other questions, other versions of
  the models and other decoding options are outside of what was measured.
* A validation score by which one mean was chosen among several is too good by that choice; the held-out comparison is
  not.
* Addresses, keys and decoding options of the models are not part of this folder.
"""
USE = """\
```python
from services.coordinator import load
choice = load("FOLDER").pick([{"role": "user", "content": "What is 6 * 7?"}])  # .model, .role, .probabilities, .logits
```

`manage.py coordinator import FOLDER` adds it to a database; `config.json` has every field.
"""
HASHES = ("weights", "tokenizer", "template", "prompt")


def card(description: Description) -> str:
    """Return the page. Names come from files: they are written so that they cannot be read as Markdown or HTML."""
    sections = {
        "Use": USE,
        "Scores": _scores(description),
        "Pool": _pool(description),
        "Encoder": _encoder(description),
        "Training": _training(description),
        "Limits": LIMITS,
    }
    page = f"# {_safe(description.name)}\n\n{_what(description)}"
    return page + "".join(f"\n## {heading}\n\n{body}" for heading, body in sections.items())


def _what(description: Description) -> str:
    layout = description.layout
    draws = "draws them from two softmaxes" if layout.spec.output is Output.SOFTMAX else "takes the largest logits"
    notes = "the notes of Workers alone" if description.protocol.notes is Notes.WORKER else "the notes of all roles"
    rank = "" if layout.spec.rank is None else f" of rank {layout.spec.rank}"
    matrices = ", ".join(_safe(matrix.name) for matrix in layout.matrices) or "none is changed"
    return (
        f"A TRINITY coordinator (arXiv:2512.04695): {layout.size:,} trained numbers on top of a small language model.\n"
        f"It reads a conversation, picks which of {len(layout.agents)} models acts next and in which role\n"
        f"({', '.join(layout.allowed)}), and {draws}.\n"
        f"An episode has at most {description.protocol.max_turns} turns; later ones read {notes}.\n\n"
        f"Head: {layout.spec.kind}{rank}, {layout.spec.output}. Matrices of the encoder that it changes: {matrices}.\n"
    )


def _scores(description: Description) -> str:
    scores = description.scores
    rows = [] if scores.validation is None else [("validation", scores.validation)]
    rows += [("held-out", score) for score in scores.evaluation]
    if not rows:
        return "Nothing was measured.\n"
    head = "| problems | policy | n | mean reward | 95 % interval |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| {problems} | {_policy(score)} | {score.n} | {score.mean:.3f} | {score.low:.3f} to {score.high:.3f} |\n"
        for problems, score in rows
    )


def _policy(score: Score) -> str:
    return f"{_safe(score.policy)} alone" if score.kind == "single" else _safe(score.policy)


def _pool(description: Description) -> str:
    chosen = description.layout.agents
    return "| place | name | model |\n| --- | --- | --- |\n" + "".join(
        f"| {index} | {_safe(model.name)}{'' if index in chosen else ' (never chosen)'} | {_safe(model.model)} |\n"
        for index, model in enumerate(description.pool)
    )


def _encoder(description: Description) -> str:
    encoder, reading = description.encoder, description.reading
    revision = "" if encoder.revision is None else f" at revision {_safe(encoder.revision)}"
    centre = "the mean state of a fixed list of questions subtracted" if encoder.center else "not centred"
    text = (
        f"{_safe(encoder.model)}{revision}: the hidden state of the {encoder.position} token, {centre},\n"
        f"norm {encoder.norm}; at most {encoder.max_tokens:,} tokens, {encoder.item_tokens:,} of each turn.\n\n"
    )
    if reading is None:
        return f"{text}Unknown: with which weights, tokenizer and template it was trained. Nobody recorded them.\n"
    return text + "".join(f"* {name}: sha256 {_safe(getattr(reading, name))}\n" for name in HASHES)


def _training(description: Description) -> str:
    origin, training = description.origin, description.training
    return (
        f"Campaign {_safe(origin.name)}, seed {origin.seed}, specification {_safe(origin.spec_sha256)}:\n"
        f"the mean of generation {origin.generation}, after {training.generations} generations of "
        f"{training.population} candidates x {training.replicates} episodes.\n"
        f"Settings: {_safe(training.preset) if training.preset else 'not recorded'} (presets of this product).\n\n"
        f"The whole campaign took {training.episodes:,} episodes, {training.calls:,} model calls, {training.tokens:,} "
        f"tokens and {training.usd:f} USD.\n"
    )


def _safe(text: str) -> str:
    """Return text as inline code, without what would end it or break a table's row."""
    return "`" + "".join(letter if letter.isprintable() and letter not in "`|" else " " for letter in text) + "`"
