"""The endpoints of the protocol, declared once: routes of REST, methods of gRPC, and the table of docs/serving.md."""

from __future__ import annotations

from ...declarations.frozen_dataclass import frozen


@frozen
class Endpoint:
    """An endpoint.  ``paths``: of the REST transport; ``rpc``: gRPC's method, "" for none; ``handler``: the name in both."""

    handler: str
    method: str
    paths: tuple[str, ...]
    rpc: str
    answer: str
    required: bool = True


_MODEL = "/v2/models/{name}"
_VERSION = f"{_MODEL}/versions/{{version}}"
ENDPOINTS = (
    Endpoint("live", "GET", ("/v2/health/live",), "ServerLive", "200 while the process answers"),
    Endpoint(
        "ready", "GET", ("/v2/health/ready",), "ServerReady", "200 while all models take requests, 503 once the server stops"
    ),
    Endpoint("model_ready", "GET", (f"{_MODEL}/ready", f"{_VERSION}/ready"), "ModelReady", "200 for a model that takes requests"),
    Endpoint("server", "GET", ("/v2",), "ServerMetadata", "name, version, extensions"),
    Endpoint("model", "GET", (_MODEL, _VERSION), "ModelMetadata", "versions, inputs and outputs with their sizes"),
    Endpoint("infer", "POST", (f"{_MODEL}/infer", f"{_VERSION}/infer"), "ModelInfer", "the outputs of a run"),
    Endpoint("statistics", "GET", ("/metrics",), "", "statistics in Prometheus' form", required=False),
)


def endpoints_table() -> str:
    """The endpoints as a Markdown table."""
    lines = ["| REST | gRPC | answer | required by the protocol |", "|---|---|---|---|"]
    for e in ENDPOINTS:
        rest = ", ".join(f"`{e.method} {path}`" for path in e.paths)
        lines.append(f"| {rest} | {f'`{e.rpc}`' if e.rpc else ''} | {e.answer} | {'yes' if e.required else 'no'} |")
    return "\n".join(lines) + "\n"
