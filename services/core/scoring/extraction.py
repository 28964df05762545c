r"""The final expression in what a model wrote: the last box or answer field, however much prose stands around it."""

from __future__ import annotations

import json
import re

from services.core.scoring.units import number_in_sentence

_LONGEST = 20_000  # of a longer text the end is read: final answers stand there
_MOST_MARKS = 40  # likewise only the last ones are looked at
_LONGEST_EXPRESSION = 400
_LONGEST_LINE = 2_000
_MOST_WORDS = 6

_OPENING_TAG = re.compile(r"<\s{0,3}answer\s{0,3}>", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"<\s{0,3}/\s{0,3}answer\s{0,3}>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(?=[0-9A-Za-z]))")
_FIELD = re.compile(r"[\"'](?:final[_ ]?)?answer[\"']\s*:\s*", re.IGNORECASE)
_JSON_TAIL = re.compile(r"\"\s*(?:[,}\n`]|\Z)")
_BETWEEN_BOXES = re.compile(
    r"(?:\s|\$|,|;|\\[,;:!()\[\]]|\\text\{\s*(?:and|or)\s*\}|\\quad|(?:and|or|und|oder|et|ou|y|o)(?![A-Za-z])|[A-Za-z](?:_\{?\w\}?)?\s*=)*"
)
_LEAD = r"[\s*#_\-•]{0,6}"
_NAMED = r"(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|solution|result|antwort|réponse|respuesta|答案)"
_ANNOUNCED = re.compile(
    rf"(?:(?:^|\n){_LEAD}{_NAMED}|final\s+answer(?:\s+is)?)\s*(?:\*\*)?\s*[:：]\s*(?:\*\*)?\s*"
    r"|(?:^|\n)####[ \t]*",  # how GSM8K ends a solution
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?:final|the|my|correct|our)\s+answer\s+(?:is|would\s+be|must\s+be)(?:\s+therefore)?(?!\s+not\b)\s*[:：]?\s*",
    re.IGNORECASE,
)
_NO_ANSWER_WORDS = re.compile(
    r"(?:indeed |also |not |probably )?"
    r"(?:correct|right|wrong|incorrect|plausible|as follows|given|reasonable|unique|clear)\b",
    re.IGNORECASE,
)
_HOPE = re.compile(r"\.?\s*I hope (?:it|this) is correct.*", re.IGNORECASE | re.DOTALL)
_DISPLAY = re.compile(r"\$\$([^$]{1,400})\$\$|\\\[(.{1,400}?)\\\]", re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\d])\$(?!\s)([^$\n]{1,400}?)(?<!\s)\$(?!\d)|\\\((.{1,400}?)\\\)")
_CONCLUSION = re.compile(r"(?:therefore|thus|hence|so)\b[^\n]*?(?:\bis\b|=|\bare\b)\s*([^\n]+)\s*\Z", re.IGNORECASE)
_QUOTED = re.compile(r"(?:^|\n)\s*>[^\n]*\Z")
_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")


def final_answer(text: str) -> str | None:
    r"""Return the final expression as it was written, or None when there is no telling which it is.

    The first of these that the text has:

    1. the content of the last ``<answer>``, read by the same rules;
    2. the last balanced ``\boxed{}``, the last field ``"answer": ...`` of a JSON text, or the last answer announced
       with a colon (``Final answer: ...``), whichever stands last. A box in a quotation (a line that starts with ``>``)
       counts only when there is no other. Boxes joined by nothing but "and", "or" or a comma count together;
    3. "the answer is ...";
    4. the last displayed formula, else the last formula in running text;
    5. the text itself, when it is one expression, a few words, or a sentence with a single number.
    """
    kept = text[-_LONGEST:]
    tagged = _tagged(kept)
    if tagged is not None:
        return final_answer(tagged)
    marks = [mark for mark in (_last_box(kept), _last_field(kept), _announced(kept)) if mark is not None]
    if marks:
        return _usable(max(marks, key=lambda mark: mark[0])[1])
    if _BOX.search(kept):
        return None  # a box that was never closed: the text was cut off in it
    said = _announced(kept, _SAID)
    if said is not None:
        return _usable(said[1])
    plain = kept.strip()
    formula = _formula(kept)
    if _is_expression(plain) and (formula is None or not _is_prose(plain)):
        return _usable(plain)
    if formula is None and number_in_sentence(plain) is not None and not _SENTENCE.search(plain):
        return plain
    return _usable(formula)


def marked_answer(text: str) -> str | None:
    """Return the content of the last ``<answer>`` tag, else of the last box or answer field; None without any."""
    kept = text[-_LONGEST:]
    tagged = _tagged(kept)
    if tagged is not None:
        return tagged
    marks = [mark for mark in (_last_box(kept), _last_field(kept)) if mark is not None]
    return _usable(max(marks, key=lambda mark: mark[0])[1]) if marks else None


def _tagged(text: str) -> str | None:
    """Return the content of the last ``<answer>`` that is closed, else of one that was never closed."""
    closings = [match.start() for match in _CLOSING_TAG.finditer(text)]
    end = closings[-1] if closings else len(text)
    openings = [match.end() for match in _OPENING_TAG.finditer(text, 0, end)]
    return _usable(text[openings[-1] : end]) if openings else None


def _usable(found: str | None) -> str | None:
    """Return what was found, or None when it is empty or a blank to fill in, such as ``___``."""
    return found.strip() if found is not None and found.strip(" \t\n$_?.…-*#`\"'") else None


def _last_box(text: str) -> tuple[int, str] | None:
    boxes = _boxes(text)
    unquoted = [box for box in boxes if not _QUOTED.search(text[max(0, box[0] - 200) : box[0]])]
    chosen = unquoted or boxes
    if not chosen:
        return None
    start, end, content = chosen[-1]
    contents = [content]
    for before in reversed(chosen[:-1]):
        if before[1] > start or start - before[1] > 40 or not _BETWEEN_BOXES.fullmatch(text[before[1] : start]):
            break
        contents.insert(0, before[2])
        start = before[0]
    return end, ", ".join(dict.fromkeys(contents))


def _boxes(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, content) of the balanced boxes; of nested ones the innermost."""
    found: list[tuple[int, int, str]] = []
    for match in list(_BOX.finditer(text))[-_MOST_MARKS:]:
        if not match.group().endswith("{"):
            token = re.compile(r"[0-9]+|[A-Za-z]").match(text, match.end())
            assert token is not None
            found.append((match.start(), token.end(), token.group()))
            continue
        end = _closing(text, match.end())
        if end is not None and not _BOX.search(text, match.end(), end):
            found.append((match.start(), end + 1, text[match.end() : end]))
    return found


def _closing(text: str, start: int) -> int | None:
    """Return where the brace opened just before ``start`` is closed; looks 5,000 characters ahead at most."""
    level, escaped = 1, False
    for position in range(start, min(len(text), start + 5_000)):
        character = text[position]
        if not escaped:
            level += (character == "{") - (character == "}")
            if level == 0:
                return position
        escaped = character == "\\" and not escaped
    return None


def _last_field(text: str) -> tuple[int, str] | None:
    last = None
    for match in _FIELD.finditer(text):
        last = match
    if last is None:
        return None
    value = _field_value(text[last.end() : last.end() + 4_000])
    return None if value is None else (last.end() + len(value), final_answer(value) or value)


def _field_value(rest: str) -> str | None:
    """Return the value of a JSON field; models write LaTeX in JSON without doubling its backslashes, so no parser."""
    if rest.startswith('"'):
        tail = _JSON_TAIL.search(rest, 1)
        raw = rest[1 : tail.start()] if tail else rest[1:].split("\n")[0]
        single = raw.replace("\\\\", "\\") if re.search(r"\\\\[a-zA-Z(){}\[\]%$,;!]", raw) else raw
        return single.replace('\\"', '"')
    try:
        value, _ = json.JSONDecoder().raw_decode(rest)
    except (ValueError, RecursionError):
        return re.split(r"[\n}]", rest, maxsplit=1)[0].strip(" ,\"'") or None
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _announced(text: str, pattern: re.Pattern[str] = _ANNOUNCED) -> tuple[int, str] | None:
    last = None
    for match in reversed(list(pattern.finditer(text))[-_MOST_MARKS:]):
        line = text[match.end() : match.end() + _LONGEST_LINE].partition("\n")[0]
        content = _HOPE.sub("", line).strip().strip("*").strip()
        if content and content not in ("$$", "\\[", "```") and not _NO_ANSWER_WORDS.match(content):
            last = (match.end() + len(line), content)
            break
    if last is None or _boxes(last[1]) or _FIELD.search(last[1]):
        return None
    expression = _first_expression(last[1])
    return None if expression is None else (last[0], expression)


def _first_expression(line: str) -> str | None:
    """Return what an announcement announces: its one formula, else the line up to the end of its sentence."""
    formulas = _formulas(line)
    sentence = _SENTENCE.split(line)[0].strip()
    if _is_expression(sentence) and not (formulas and len(sentence.split()) > len(formulas[0].split()) + 3):
        return sentence
    if formulas:
        return formulas[-1] if len(formulas) == 1 else ", ".join(formulas) if _only_listed(line) else formulas[-1]
    return None


def _only_listed(line: str) -> bool:
    return _BETWEEN_BOXES.fullmatch(_INLINE.sub(" ", line).strip(" .")) is not None


def _formulas(text: str) -> list[str]:
    return [(match.group(1) or match.group(2)).strip() for match in _INLINE.finditer(text)]


def _formula(text: str) -> str | None:
    """Return the last formula of a prose text: a displayed one, else the last in the last paragraph that has one."""
    displayed = max(_between(text, "$$", "$$"), _between(text, r"\[", r"\]"))
    if displayed[1].strip():
        return displayed[1]
    conclusion = _CONCLUSION.search(text[-2_000:])
    if (
        conclusion is not None
        and "$" not in conclusion.group(1).strip(" .*$")
        and _is_expression(conclusion.group(1).strip(" .*$"))
    ):
        return conclusion.group(1).strip(" .*$")
    inline = _formulas(text[-20_000:])
    return inline[-1] if inline else None


def _between(text: str, opening: str, closing: str) -> tuple[int, str]:
    """Return where the last text between the two marks ends, and the text; (-1, "") without any."""
    end = text.rfind(closing)
    start = text.rfind(opening, 0, end) if end > 0 else -1
    return (end, text[start + len(opening) : end]) if start >= 0 else (-1, "")


def _is_prose(text: str) -> bool:
    """Tell whether words lead to the formulas of a text, rather than stand behind one, as a unit does."""
    outside = _INLINE.sub("\0", _DISPLAY.sub("\0", text))
    before = re.findall(r"[A-Za-z]{2,}", outside.partition("\0")[0])
    return "\0" in outside and (bool(before) or len(re.findall(r"[A-Za-z]{3,}", outside)) > 2)


def _is_expression(text: str) -> bool:
    """Tell whether a text is one expression, or so few words that they are the answer themselves."""
    if not text or len(text) > _LONGEST_EXPRESSION or len(text.strip().splitlines()) > 8:
        return False
    if r"\begin" in text:
        return True
    plain = re.sub(r"\\text\{[^{}]*\}|\\[a-zA-Z]+", " ", text)
    return len(re.findall(r"[A-Za-z]{2,}", plain)) <= _MOST_WORDS and not _SENTENCE.search(text)
