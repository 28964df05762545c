"""Packed test cases: base64 of zlib of a pickle of one string. Nothing that a pickle can ask for is done."""

from __future__ import annotations

import base64
import binascii
import pickletools
import zlib

LARGEST = 512 << 20
NOTHING_TO_DO = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"})
STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})


def unpack(packed: str) -> str:
    """Return the string.

    Raises:
        ValueError: it is packed otherwise, is too large, or its pickle holds anything but one string.
    """
    try:
        compressed = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from error
    return pickled_string(_inflated(compressed))


def _inflated(compressed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(compressed, LARGEST)
    except zlib.error as error:
        raise ValueError(f"no zlib stream: {error}") from error
    if not inflater.eof:
        raise ValueError(f"a zlib stream that is cut off, or longer than {LARGEST} bytes")
    return data


def pickled_string(data: bytes) -> str:
    """Return the one string of a pickle by reading its instructions, none of which is carried out.

    Raises:
        ValueError: an instruction other than those that write one string.
    """
    found: list[str] = []
    end = -1
    for instruction, argument, place in pickletools.genops(data):
        if instruction.name in STRINGS:
            found.append(str(argument))
        elif instruction.name not in NOTHING_TO_DO:
            raise ValueError(f"a pickle with the instruction {instruction.name}, and only a string is allowed")
        end = place or 0
    if len(found) != 1 or end != len(data) - 1:
        raise ValueError(f"a pickle of {len(found)} strings or with a tail, and only one string is allowed")
    return found[0]
