"""Text from outside, made storable: Postgres refuses NUL and half surrogates, models and files may contain them.

Such a character becomes U+001A (SUBSTITUTE) and its code in four lower-case hexadecimal digits; U+001A itself is
written the same way, so the coding is reversible. All other text is stored, shown and searched as it is.
"""

from __future__ import annotations

import re
from typing import Any

MARK = "\x1a"
_UNSTORABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def escape(text: str) -> str:
    """Return ``text`` in a form that Postgres stores; ``unescape`` returns the original."""
    return _UNSTORABLE.sub(lambda match: f"{MARK}{ord(match.group()):04x}", text)


def unescape(text: str) -> str:
    """Return what ``escape`` was given. Text that was never escaped comes back unchanged unless it has a mark."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)


def escape_json(value: Any) -> Any:
    """Return a JSON value with every string in it, keys included, escaped."""
    return _mapped(value, escape)


def unescape_json(value: Any) -> Any:
    """Return what ``escape_json`` was given."""
    return _mapped(value, unescape)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return value
