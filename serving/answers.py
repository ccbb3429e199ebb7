"""The bytes of an HTTP answer that no framework writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

_STATUS_LINES = {s: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}


def answer_bytes(
    status: int, headers: Mapping[str, str], body: bytes, defaults: Iterable[tuple[bytes, bytes]], keep_alive: bool
) -> bytes:
    """The answer, as one piece.  ``defaults``: headers of all answers; ``keep_alive``: whether the connection stays open."""
    parts = [_STATUS_LINES[HTTPStatus(status)]]
    for name, value in defaults:
        parts += (name, b": ", value, b"\r\n")
    if not keep_alive and "connection" not in headers:
        parts.append(b"connection: close\r\n")
    parts.append("".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode())
    parts.append(b"content-length: %d\r\n\r\n" % len(body))
    parts.append(body)
    return b"".join(parts)
