"""A client of an ASGI application in this process: one request, its body in chunks, and a client that leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """Status, headers and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


async def asked(
    app: Any,
    path: str,
    chunks: Sequence[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
    leaves: asyncio.Event | None = None,
) -> Answer:
    """The answer; ``leaves`` is set when the client goes."""
    parts = list(chunks or [b""])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    length = {"content-length": str(sum(map(len, parts)))}
    given = {**length, **{name.lower(): value for name, value in (headers or {}).items()}}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method or ("GET" if chunks is None else "POST"),
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value],
        "server": ("test", 80),
        "client": ("test", 1),
    }
    await app(scope, receive, send)
    start = sent[0]
    body = b"".join(m.get("body", b"") for m in sent[1:])
    return Answer(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, body)


def ask(
    app: Any, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str | None = None
) -> Answer:
    """The answer of one request."""
    return asyncio.run(asked(app, path, None if body is None else [body], headers, method))
