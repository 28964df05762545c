"""``python -m bench.pool_provider --latency 1.0``: a provider on loopback that answers every completion alike.

One line on stdout tells its port. It is one asyncio loop without a framework, so that it is never what is waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

COMPLETION = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 0,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "<idea>counted</idea><answer>42</answer>"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 16, "total_tokens": 136},
    }
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(COMPLETION),
    COMPLETION,
)
LARGEST_HEAD = 64 * 1024


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> None:
    """Answer the requests of one connection, each after the latency."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            if latency:
                await asyncio.sleep(latency)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve(latency: float) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, latency), "127.0.0.1", 0, limit=LARGEST_HEAD, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    try:
        asyncio.run(serve(parser.parse_args(words).latency))
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
