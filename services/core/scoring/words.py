"""Answers in words, which are compared as words: to a symbolic grader ``even`` is a product, and equal to ``neve``."""

from __future__ import annotations

import itertools
import re

_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_RUN = re.compile(r"(?<![0-9A-Za-z\\_^{])[A-Za-z]{2,}(?![0-9A-Za-z_^({])")
_NAMES = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp sqrt lim max min gcd lcm mod det dim ker",
    "deg arg theta alpha beta gamma delta lambda sigma omega phi oo inf infty infinity pi",
)
_FUNCTIONS = frozenset(" ".join(_NAMES).split())
_SHORT = "no on ok if or is it us go do to up so me he we"
_TWO_LETTERS = frozenset(_SHORT.split())
_LETTERS_OF_PRODUCTS = frozenset("abcdxyz")
_ARTICLES = re.compile(r"^(?:an?|the)\s+(?=\w{2})")


def words(text: str) -> str | None:
    r"""Return a tidied expression that is words as the words to compare, or None when it is mathematics.

    Words are what stands in ``\text{}``, even a single letter, and runs of letters that read as a word rather than as a
    product of variables: with a vowel, three letters at least, no neighbours in the alphabet as in ``abc``, and no name
    of a function.
    """
    if _TEXT.search(text):
        rest = _TEXT.sub(r" \1 ", text)
        if re.search(r"\d", _TEXT.sub("", text)):
            return None
        return _canonical(rest)
    bare = _COMMAND.sub(" ", text)
    found = _RUN.findall(bare)
    if not found or not any(_is_word(run) for run in found):
        return None
    return _canonical(text)


def plain_words(text: str) -> str:
    """Return what any tidied text is when it is compared with words."""
    return _canonical(_TEXT.sub(r" \1 ", text))


def _is_word(run: str) -> bool:
    small = run.lower()
    if small in _FUNCTIONS:
        return False
    if len(run) == 2:
        return small in _TWO_LETTERS
    if run[0].isupper() and run[1:].islower():
        return True
    if set(small) <= _LETTERS_OF_PRODUCTS or _neighbours(small) or run.isupper():
        return len(run) > 4 and not _neighbours(small)
    return any(letter in "aeiouy" for letter in small)


def _neighbours(letters: str) -> bool:
    places = sorted(map(ord, letters))
    return all(second - first == 1 for first, second in itertools.pairwise(places))


def _canonical(text: str) -> str:
    plain = re.sub(r"[\s\"'`*_~$]+", " ", text.replace("\\", " ")).strip().casefold()
    while len(plain) > 1 and plain[0] in "([{" and plain[-1] in ")]}":
        plain = plain[1:-1].strip()
    plain = re.sub(r"\s*-\s*", "-", plain).strip(" .,;:!()")
    return _ARTICLES.sub("", plain)
