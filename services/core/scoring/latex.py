"""One way of writing what LaTeX, plain text and Unicode write in many; nothing here changes what is meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SIGNS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "π": r"\pi ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ",
    "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "°": r"^\circ ", "θ": r"\theta ", "α": r"\alpha ",
    "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ", "ω": r"\omega ", "⟨": r"\langle ",
    "⟩": r"\rangle ", "≈": r"\approx ", "ℝ": r"\mathbb{R}", "“": '"', "”": '"', "’": "'", "‘": "'", "\u00a0": " ",
    "\u2009": " ", "\u202f": " ", "⁄": "/", "∖": r"\setminus ",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_VULGAR = re.compile("[¼½¾⅐-⅞]")
_BRACED = r"(\{(?:[^{}]|\{[^{}]*\})*\})"

# Searched in this order.
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"(?<=\d)\s*(?:\\!)?\{?,\}?\\!\s*(?=\d)", ""),  # 10,\!080
        (r"(?<=\d)\{,\}(?=\d{3})", ""),
        (r"(?<=\d)\\,(?=\d{3}(?!\d))", ""),
        (r"\\(?:left|right|[bB]igg?[lrm]?|middle)(?![a-zA-Z])\s*\.?", ""),
        (r"\\(?:displaystyle|textstyle|limits|phantom\{[^{}]*\}|strut|hfill|cdotp)(?![a-zA-Z])", ""),
        (r"(?<!\\)\\(?:[,;:! ]|quad(?![a-zA-Z])|qquad(?![a-zA-Z])|enspace(?![a-zA-Z])|thinspace(?![a-zA-Z]))", " "),
        (r"(?<!\\)~", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:mbox|text(?:bf|it|rm|sf|tt|normal)|math(?:rm|bf|it|sf|tt)|operatorname\*?|rm)(?=\s*\{)", r"\\text"),
        (r"\\text\s*\{", r"\\text{"),
        (r"\\(?:leqslant|leqq|leq)(?![a-zA-Z])|<=|=<", r"\\le "),
        (r"\\(?:geqslant|geqq|geq)(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\neq(?![a-zA-Z])|!=", r"\\ne "),
        (r"\\(?:varnothing|O)(?![a-zA-Z])", r"\\emptyset "),
        (r"\\(?:lbrace)(?![a-zA-Z])", r"\\{"),
        (r"\\(?:rbrace)(?![a-zA-Z])", r"\\}"),
        (r"\\(?:lbrack)(?![a-zA-Z])", "["),
        (r"\\(?:langle)(?![a-zA-Z])", "("),
        (r"\\(?:rangle)(?![a-zA-Z])", ")"),
        (r"\\log_(?:e|\{e\})(?![a-zA-Z])", r"\\ln "),
        (r"\\(?:rbrack)(?![a-zA-Z])", "]"),
        (r"\\(?:infin)(?![a-zA-Z])", r"\\infty "),
        (r"\\(?:to|rightarrow|implies|Rightarrow)(?![a-zA-Z])", r"\\to "),
        (r"\\ast(?![a-zA-Z])", r"\\cdot "),
        (r"\\(?:degree|textdegree)(?![a-zA-Z])|\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])", r"^\\circ "),
        (r"\\(?=[%$€£])", ""),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*(?=\{)", r"\\frac{\1}"),
        (rf"\\frac\s*{_BRACED}\s*([0-9a-zA-Z])", r"\\frac\1{\2}"),
        (r"\\sqrt\s*([0-9]+|[a-zA-Z])", r"\\sqrt{\1}"),
        (r"(\\(?:sqrt|frac))\s+(?=[\{\[])", r"\1"),
        (r"(?<![\\a-zA-Z])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])sqrt\s*(\d+)", r"\\sqrt{\1}"),
        (r"√\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"√\s*(\d+|[a-zA-Z])", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])(?:infinity|infty|oo)(?![a-zA-Z])", r"\\infty "),
        (r"(?<![\\a-zA-Z])(?:Pi|pi|PI)(?![a-zA-Z])", r"\\pi "),
        (r"\+\s*/\s*-|\+-", r"\\pm "),
        (r"(?<=[\w)}\]])\s*\*\*\s*(?=[\w({\\-])", "^"),
    )
)  # fmt: skip
_WRAPPED = (
    re.compile(r"\$\$(.*)\$\$", re.DOTALL),
    re.compile(r"\$([^$]*)\$", re.DOTALL),
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\*\*(.*)\*\*", re.DOTALL),
    re.compile(r"`+([^`]*)`+", re.DOTALL),
    re.compile(r'"([^"]*)"', re.DOTALL),
)
_INLINE = re.compile(r"(?<!\\)\$([^$]+)(?<!\\)\$")
_OUTER_BRACES = re.compile(r"\{((?:[^{}\\]|\\.)*)\}", re.DOTALL)
_OPENING, _CLOSING = "([{", ")]}"


def tidy(text: str) -> str:
    """Return the expression without wrappers, spacing commands and typographic variants."""
    plain = _INLINE.sub(r" \1 ", unwrap(text))
    plain = _VULGAR.sub(_spell_fraction, plain)
    plain = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda run: "^{" + run.group().translate(_SUPERSCRIPTS) + "}", plain)
    plain = re.sub("[₀-₉]+", lambda run: "_{" + run.group().translate(_SUBSCRIPTS) + "}", plain)
    for sign, command in _SIGNS.items():
        plain = plain.replace(sign, command)
    plain = unicodedata.normalize("NFKC", plain)
    for pattern, by in _REWRITES:
        plain = pattern.sub(by, plain)
    return unwrap(" ".join(plain.split()))


def unwrap(text: str) -> str:
    """Return the text without the marks of mathematics, bold or code around all of it, and punctuation at its end."""
    before = None
    plain = text.strip()
    while plain != before:
        before = plain
        plain = plain.rstrip(" \t\n.,;:").strip() if not plain.endswith(("\\,", "\\;", "\\:")) else plain[:-2].strip()
        for pattern in _WRAPPED:
            match = pattern.fullmatch(plain)
            if match is not None and not (pattern is _WRAPPED[0] and "$$" in match.group(1)):
                plain = match.group(1).strip()
        match = _OUTER_BRACES.fullmatch(plain)
        if match is not None:
            plain = match.group(1).strip()
    return plain


def key(text: str) -> str:
    """Return what two spellings of the same tidied expression have in common, to compare as strings."""
    plain = re.sub(r"\\(?:times|cdot)(?![a-zA-Z])", "*", text)
    plain = re.sub(r"(?<=\d)\s+(?=\d)", "\0", plain)  # 4 2 is not 42
    plain = re.sub(r"\s+", "", plain)
    return re.sub(r"(?<![a-zA-Z])\{(\w)\}", r"\1", plain)


def split_outside(text: str, separator: re.Pattern[str]) -> list[str]:
    """Return the parts between separators that stand in no bracket of any kind."""
    parts, start = [], 0
    inside = depths(text)
    for match in separator.finditer(text):
        if inside[match.start()] == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def balanced(text: str) -> bool:
    """Tell whether the curly braces close what they open; round and square ones may mix, as in ``(3,4]``."""
    depth = 0
    for character in _unescaped(text):
        depth += (character == "{") - (character == "}")
        if depth < 0:
            return False
    return depth == 0


def depth(text: str) -> int:
    """Return how deep brackets stand in each other."""
    return max(depths(text), default=0)


def depths(text: str) -> list[int]:
    """Return for each position how many brackets are open there; a bracket itself counts as inside."""
    depths, level = [], 0
    for character in text:
        if character in _OPENING:
            level += 1
        depths.append(level)
        if character in _CLOSING:
            level = max(0, level - 1)
    return depths


def _unescaped(text: str) -> Iterator[str]:
    escaped = False
    for character in text:
        if not escaped and character != "\\":
            yield character
        escaped = character == "\\" and not escaped


def _spell_fraction(match: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", match.group()).partition("⁄")
    return rf"\frac{{{top}}}{{{bottom}}}"
