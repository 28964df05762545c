"""Messages between a process and its runner: a header in JSON and byte strings, both with their lengths in front."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

from services.core.scoring.ports import Ending, Execution, Job, Limits

FRONT = struct.Struct(">II")
MOST_BYTES = 1 << 30

Message = tuple[dict[str, Any], list[bytes]]


class Closed(Exception):
    """The other end is gone."""


def send(channel: socket.socket, header: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
    """Write one message; the caller sees to it that only one thread does.

    Raises:
        Closed: nobody reads any more.
    """
    text = json.dumps(header | {"sizes": [len(part) for part in parts]}).encode()
    body = b"".join(parts)
    try:
        channel.sendall(b"".join((FRONT.pack(len(text), len(body)), text, body)))
    except OSError as error:
        raise Closed(str(error)) from error


def receive(channel: socket.socket) -> Message:
    """Read one message.

    Raises:
        Closed: nobody writes any more.
    """
    text_size, body_size = FRONT.unpack(exactly(channel, FRONT.size))
    header = json.loads(exactly(channel, text_size))
    body, parts, at = exactly(channel, body_size), [], 0
    for size in header.pop("sizes"):
        parts.append(body[at : at + size])
        at += size
    return header, parts


def exactly(channel: socket.socket, size: int) -> bytes:
    if size > MOST_BYTES:
        raise Closed(f"a message of {size} bytes")
    content = bytearray(size)
    view, got = memoryview(content), 0
    while got < size:
        try:
            count = channel.recv_into(view[got:])
        except OSError as error:
            raise Closed(str(error)) from error
        if not count:
            raise Closed("the other end was closed")
        got += count
    return bytes(content)


def packed(jobs: Sequence[Job]) -> Message:
    limits = [
        (job.limits.cpu_seconds, job.limits.wall_seconds, job.limits.memory_bytes, job.limits.output_bytes)
        for job in jobs
    ]
    # A text with half a surrogate pair is no Python source whatever stands in its place.
    return {"limits": limits}, [part for job in jobs for part in (job.source.encode(errors="replace"), job.stdin)]


def unpacked(message: Message) -> list[Job]:
    header, parts = message
    return [
        Job(source.decode(), stdin, Limits(*limits))
        for limits, source, stdin in zip(header["limits"], parts[::2], parts[1::2], strict=True)
    ]


def packed_executions(executions: Sequence[Execution]) -> Message:
    rows = [(each.ending, each.status, each.wall_seconds, each.cpu_seconds) for each in executions]
    return {"executions": rows}, [part for each in executions for part in (each.stdout, each.stderr)]


def unpacked_executions(message: Message) -> list[Execution]:
    header, parts = message
    return [
        Execution(Ending(ending), status, stdout, stderr, wall, cpu)
        for (ending, status, wall, cpu), stdout, stderr in zip(
            header["executions"], parts[::2], parts[1::2], strict=True
        )
    ]
