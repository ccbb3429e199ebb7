"""Limits of a server, declared once: the fields are the options of ``relayvm serve``, too."""

from __future__ import annotations

from dataclasses import field, fields, replace
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics.source import ConfigError

_MIB = 1 << 20


def _limit(default: int, text: str, least: int = 1) -> Any:
    return field(default=default, metadata={"help": text, "least": least})


@frozen(kw_only=True)
class Limits:
    """Limits of requests.  A request beyond a limit is refused before memory is allocated for it."""

    header_bytes: int = _limit(_MIB // 16, "Most bytes of a request's address and headers.")
    header_ms: int = _limit(10_000, "Most milliseconds from the begin of a connection, or of a request, to its last header.")
    idle_ms: int = _limit(
        5000, "Milliseconds after which a connection is closed that has no request, or does not read its answer."
    )
    body_bytes: int = _limit(64 * _MIB, "Most bytes of a request.")
    tensor_bytes: int = _limit(64 * _MIB, "Most bytes of an input tensor.")
    pending_bytes: int = _limit(1024 * _MIB, "Most bytes of all requests that are read, queued or run at a time.")
    memory_bytes: int = _limit(2048 * _MIB, "Most bytes of tensors that one worker allocates at a time.")
    queue: int = _limit(256, "Most requests of a model that wait for a worker.")
    timeout_ms: int = _limit(60_000, "Most milliseconds from a request's first byte to its answer.")
    workers: int = _limit(0, "Threads of a model, each with a virtual machine of its own; 0: a thread for each core.", 0)
    short_ms: int = _limit(
        10, "Most milliseconds of a run beside its connections, in a server process with one worker; 0: runs in workers only.", 0
    )
    batch_requests: int = _limit(64, "Most requests of one batch, for models with --batch.")
    reload_ms: int = _limit(1000, "Milliseconds between two looks at the models' files for replaced ones; 0: never.", 0)

    def divided(self, processes: int) -> Limits:
        """The limits of each of several processes, which have these limits together; a single body still fits."""
        pending = max(self.pending_bytes // processes, min(self.pending_bytes, self.body_bytes))
        return replace(self, pending_bytes=pending, queue=-(-self.queue // processes))

    def checked(self) -> Limits:
        """These limits.  Raises ConfigError for a value that is no number, or too small."""
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < f.metadata["least"]:
                raise ConfigError(
                    f"the limit {f.name} cannot be {value!r}", help=f"a whole number of at least {f.metadata['least']}"
                )
        return self


def limits_table() -> str:
    """The limits as a Markdown table, for docs/serving.md."""
    lines = ["| option | default | limit |", "|---|--:|---|"]
    for f in fields(Limits):
        lines.append(f"| `--{f.name.replace('_', '-')}` | {f.default} | {f.metadata['help']} |")
    return "\n".join(lines) + "\n"
