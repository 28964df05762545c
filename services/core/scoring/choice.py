"""The option a reply chooses, in several languages; a letter that may be a word of its language is none."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

from services.core.scoring.choice_words import ANNOUNCED, APPROVED, CHOSEN, CONCLUDED, JOINED, NEGATED, REASONS
from services.core.scoring.extraction import marked_answer
from services.core.scoring.grade import Grade, Outcome

_LONGEST = 20_000  # of a longer reply the end is read
_LONGEST_LETTER = 60
_MOST_MARKS = 40
_AHEAD = 300
_SHORT = 400
_LETTER = r"(?<![A-Za-zÀ-ɏЀ-ӿ0-9_'’])[A-Z](?![A-Za-zÀ-ɏЀ-ӿ0-9_'’]|-[A-Za-z])"
_OPEN, _CLOSE = r"[(\[<{「『【\"'“]*\s*", r"\s*[)\]>}」』】\"'”]*"
_WHOLE = re.compile(
    rf"{_OPEN}(?:(?:option|choice|answer|antwort|réponse|respuesta|resposta|risposta|ответ|letter|lettre|buchstabe|opción|opção|opzione|letra|lettera|вариант|選択肢|选项)\s*)?"
    rf"{_OPEN}([A-Za-z]){_CLOSE}\s*[.:,;!。)]*{_CLOSE}",
    re.IGNORECASE,
)
_LABELLED = re.compile(rf"{_OPEN}([A-Z])\s*[).:\]-]+\s*(?=\S)")
_BRACKETED = re.compile(r"[(\[]\s*([A-Za-z])\s*[)\]]")
_BARE = re.compile(rf"({_LETTER})")
_NEXT_WORD = re.compile(r"\s+([a-zß-ÿа-я][\w'’]*)")
_AMBIGUOUS = frozenset("AEIOUY")  # words of their own in English and Romance languages
_LOOKALIKES = str.maketrans("АСЕ", "ACE")  # of the Cyrillic letters only these have one reading


def grade_choice(reference: str, answer: str, choices: Sequence[str]) -> Grade:
    """Grade a reply to a multiple-choice question; one that chooses no single option has its own outcome."""
    letter = chosen_letter(answer, choices)
    if letter is None:
        return Grade(0.0, Outcome.NO_ANSWER, "no single option can be read from the reply", "choice")
    correct = letter == reference_letter(reference)
    return Grade(float(correct), Outcome.CORRECT if correct else Outcome.WRONG, f"chose {letter}", "choice")


def reference_letter(reference: str) -> str | None:
    """Return the letter a reference such as ``C`` or ``(c)`` is."""
    match = _WHOLE.fullmatch(reference.strip()[:_LONGEST_LETTER])
    return match.group(1).upper() if match else None


def choices_agree(a: str, b: str) -> bool:
    """Tell whether two replies choose the same letter, without knowing the options."""
    left, right = chosen_letter(a, ()), chosen_letter(b, ())
    return left == right is not None or (left is right is None and _option_key(a) == _option_key(b) != "")


def chosen_letter(reply: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the option that a reply chooses, or None when it names none, or several.

    In this order: the content of an ``<answer>`` tag, box or answer field; the reply as a whole as a letter or as an
    option's text; the last "the answer is ..."; "... is correct" and "I choose ..."; the only option whose text is
    quoted; the only letter in a short reply.

    Args:
        reply: what the model wrote.
        choices: the options' texts; without them every letter is one.
    """
    text = _plain(reply[-_LONGEST:])
    letters = string.ascii_uppercase[: len(choices)] if choices else string.ascii_uppercase
    marked = marked_answer(reply[-_LONGEST:])
    if marked is not None and _plain(marked) != text:
        return chosen_letter(marked, choices) if _plain(marked) else None
    for find in (_as_a_whole, _announced, _approved):
        found = find(text, letters, choices)
        if found is not None:
            return found or None
    quoted = _quoted(text, choices)
    if quoted:
        return letters[quoted.pop()] if len(quoted) == 1 else None
    return _only_letter(text, letters)


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)
    plain = re.sub(r"\\(?:text|textbf|mathbf|mathrm|boxed)\s*\{([^{}]*)\}", r"\1", plain)
    plain = re.sub(r"[*$`_]+|\\[()\[\]]", "", plain)
    return re.sub(r"[ \t]+", " ", plain).strip()


def _as_a_whole(text: str, letters: str, choices: Sequence[str]) -> str | None:
    match = _WHOLE.fullmatch(text) if len(text) <= _LONGEST_LETTER else None
    letter = match.group(1).upper() if match else ""
    if letter and letter in letters:  # before the options' texts, which may be letters themselves
        return letter
    own = _same_option(text, choices)
    if own is not None:
        return letters[own]
    if match is not None:
        return ""
    labelled = _LABELLED.match(text)
    if labelled is not None and labelled.group(1) in letters and "\n" not in text:
        own = _same_option(text[labelled.end() :], choices)
        if own is not None:
            return labelled.group(1) if letters[own] == labelled.group(1) else ""
    return None


def _announced(text: str, letters: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the last announcement, "" when it announces several, None without one."""
    for match in reversed(list(ANNOUNCED.finditer(text))[-_MOST_MARKS:]):
        rest = text[match.end() : match.end() + _AHEAD].split("\n\n")[0].lstrip(" \n:-–—\"'“«")
        quoted = _starts_with_option(rest, choices)
        if quoted is not None:
            return letters[quoted]
        named = _named(rest, letters, colon=":" in match.group() or "\n" in match.group())
        if named is not None:
            return named
    return None


def _named(rest: str, letters: str, *, colon: bool) -> str | None:
    match = re.match(
        rf"(?:{CHOSEN.pattern}\s*)?(?:(?P<bracketed>[(\[]\s*[A-Za-z]\s*[)\]])|(?P<bare>[A-Za-z])"
        r"(?![A-Za-zÀ-ɏЀ-ӿ0-9_'’]|-[A-Za-z]))",
        rest,
    )
    if match is None:
        return None
    letter = (match.group("bracketed") or match.group("bare")).strip("()[] ")
    after = rest[match.end() :]
    alone = after.startswith(")") or (colon and re.match(r"\s*(?:[.,;!)]|\n|$)", after))
    if match.group("bare") and letter.islower() and not alone:
        return None
    if letter.upper() not in letters or (match.group("bare") and _is_word(letter.upper(), after)):
        return None
    return "" if _another_follows(after, letters) else letter.upper()


def _is_word(letter: str, after: str) -> bool:
    """Tell whether a bare letter may be an article, a pronoun or a preposition: a word follows that gives no reason."""
    following = _NEXT_WORD.match(after)
    if JOINED.match(after):
        return False
    return letter in _AMBIGUOUS and following is not None and following.group(1).casefold() not in REASONS


def _another_follows(after: str, letters: str) -> bool:
    match = JOINED.match(after)
    return match is not None and match.group(1).upper() in letters and match.group(1).isupper()


def _approved(text: str, letters: str, choices: Sequence[str]) -> str | None:
    """Return the letter that is called right or chosen, "" when several are, None when none is."""
    concluded = CONCLUDED.search(text[-_AHEAD:])
    if concluded is not None and concluded.group(1) in letters:
        return concluded.group(1)
    found = []
    for match in APPROVED.finditer(text):
        letter = next(group for group in match.groups() if group)
        after = text[match.end() : match.end() + _AHEAD]
        word = match.group(2) is not None and _is_word(letter, after)
        if letter in letters and not word and not _another_follows(after, letters):
            found.append(letter)
    return None if not found else found[0] if len(set(found)) == 1 else ""


def _quoted(text: str, choices: Sequence[str]) -> set[int]:
    """Return the options whose text stands in the reply, longest first, so that a part of one does not count."""
    folded, found = text.casefold(), set[int]()
    for index in sorted(range(len(choices)), key=lambda number: -len(choices[number])):
        wanted = _plain(choices[index]).casefold()
        if not wanted or (len(wanted) < 2 and not wanted.isdigit()):
            continue
        pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        if pattern.search(folded):
            found.add(index)
            folded = pattern.sub("\0", folded)
    return found


def _same_option(text: str, choices: Sequence[str]) -> int | None:
    wanted = _option_key(text)
    found = [index for index, choice in enumerate(choices) if _option_key(choice) == wanted]
    return found[0] if len(found) == 1 and wanted else None


def _starts_with_option(text: str, choices: Sequence[str]) -> int | None:
    folded = text.casefold()
    found = [
        index
        for index, choice in enumerate(choices)
        if len(_plain(choice)) > 1 and re.match(rf"{re.escape(_plain(choice).casefold())}(?!\w)", folded)
    ]
    return max(found, key=lambda index: len(choices[index])) if found else None


def _option_key(text: str) -> str:
    return " ".join(_plain(text).casefold().split()).strip(" .,;:!\"'“”«»。")


def _only_letter(text: str, letters: str) -> str | None:
    """Return the only option named in a short reply, in brackets or bare; letters that may be words do not count."""
    if len(text) > _SHORT:
        return None
    kept = NEGATED.sub(" ", text)
    found = {match.group(1).upper() for match in _BRACKETED.finditer(kept)}
    found |= {match.group(1) for match in _BARE.finditer(kept) if not _is_word(match.group(1), kept[match.end() :])}
    found &= set(letters)
    return found.pop() if len(found) == 1 else None
