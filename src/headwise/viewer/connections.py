"""How many connections a server holds, and how long one may take to ask."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

__all__ = ["MOST", "PATIENCE", "bounded_protocol"]

MOST = 256  #: connections at a time; more are closed as they come.
PATIENCE = 10.0  #: seconds for the head of a request to arrive.


@lru_cache(maxsize=1)
def bounded_protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol, with these bounds: it has none for a request that never ends, and each takes a descriptor."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Bounded(H11Protocol):
        refused = False
        deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) >= MOST:
                self.refused = True
                transport.abort()
                return
            super().connection_made(transport)
            self.deadline = self.loop.call_later(PATIENCE, transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            self._in_time()
            if not self.refused:
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._in_time()
            elif self.deadline is None:
                self.deadline = self.loop.call_later(PATIENCE, self.transport.abort)

        def _in_time(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Bounded
