"""One HTTP request with one deadline, and what became of it.

The SDK's timeout starts anew with every chunk it reads, so a slow reply can outlast it by hours; and litellm reports a
broken body, a lost connection and a server error alike. The client here keeps the deadline and the facts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

LARGEST_BODY = 32 * 1024 * 1024
LONGEST_REFUSAL = 4096
NO_HEADERS: Mapping[str, str] = {}


class BodyTooLarge(httpx.TransportError):
    """The reply is larger than any chat completion has a reason to be."""


class Exchange:
    """Facts about the request of one model call.

    Attributes:
        deadline: on the monotonic clock, seconds.
        status: of the response, None as long as there is none.
        headers: of the response, names in lower case.
        complete: the whole body arrived.
        sent: headers of the request beyond the usual ones.
        refusal: the beginning of an error's body; its codes say more than the message that litellm keeps.
        failure: what the connection died of.
        received: pieces of a streamed reply, as far as it came.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self.deadline = time.monotonic() + timeout_seconds
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.complete = False
        self.sent: Mapping[str, str] = NO_HEADERS
        self.refusal = ""
        self.failure: httpx.HTTPError | None = None
        self.received: list[str] = []

    @property
    def remaining_seconds(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def reached_nobody(self) -> bool:
        """No connection came about, so nothing can have been charged."""
        return isinstance(self.failure, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


class _WatchedBody(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, exchange: Exchange, request: httpx.Request) -> None:
        self._stream = stream
        self._exchange = exchange
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > LARGEST_BODY:
                raise BodyTooLarge(f"the reply is larger than {LARGEST_BODY} bytes", request=self._request)
            if self._exchange.remaining_seconds <= 0:
                raise httpx.ReadTimeout("the reply was still arriving at the deadline", request=self._request)
            yield chunk

    def close(self) -> None:
        self._stream.close()


class WatchedClient(httpx.Client):
    """An HTTP client that keeps the deadline of the calling thread's exchange and records its facts there."""

    def __init__(self) -> None:
        # Every slot of a worker may call at once; the number of connections is bounded by the slots, not here.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        super().__init__(limits=limits, follow_redirects=False)
        self._thread = threading.local()

    @contextmanager
    def exchange(self, timeout_seconds: float, headers: Mapping[str, str] = NO_HEADERS) -> Iterator[Exchange]:
        """Bound everything that this thread sends in the block by one deadline; ``headers`` go with it."""
        current = Exchange(timeout_seconds)
        current.sent = headers
        self._thread.exchange = current
        try:
            yield current
        finally:
            self._thread.exchange = None

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """Send as ``httpx.Client`` does, within the exchange's deadline."""
        exchange: Exchange | None = getattr(self._thread, "exchange", None)
        if exchange is None:
            return super().send(request, stream=stream, **options)
        try:
            return self._watched(request, exchange, stream, options)
        except httpx.HTTPError as failure:
            exchange.failure = failure
            raise

    def _watched(
        self, request: httpx.Request, exchange: Exchange, stream: bool, options: dict[str, Any]
    ) -> httpx.Response:
        left = max(exchange.remaining_seconds, 0.001)
        request.headers.update(exchange.sent)
        request.extensions = {**request.extensions, "timeout": httpx.Timeout(left).as_dict()}
        response = super().send(request, stream=True, **options)
        exchange.status = response.status_code
        exchange.headers = {name.lower(): value for name, value in response.headers.items()}
        if isinstance(response.stream, httpx.SyncByteStream):
            response.stream = _WatchedBody(response.stream, exchange, request)
        if not stream:
            try:
                response.read()
            except httpx.HTTPError:
                response.close()
                raise
            exchange.complete = True
            if response.status_code >= 400:
                exchange.refusal = response.content[:LONGEST_REFUSAL].decode("utf-8", "replace")
        return response
