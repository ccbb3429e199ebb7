"""Statistics of a server in Prometheus' form."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

#: Bounds of the histogram of seconds, and of requests in a batch.
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The statistics of one server; its models are the labels ``model`` and ``version``."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        of = ["model", "version"]
        self.requests = Counter(
            "relayvm_requests", "Answered inference requests, by status.", [*of, "transport", "status"], registry=registry
        )
        self.seconds = Histogram(
            "relayvm_request_seconds", "Seconds from the decoded request to its answer.", of, registry=registry, buckets=_SECONDS
        )
        self.batches = Histogram("relayvm_batch_requests", "Requests of each run.", of, registry=registry, buckets=_BATCHES)
        self.waiting = Gauge("relayvm_queue_requests", "Requests that wait for a worker.", of, registry=registry)
        self.reloads = Counter(
            "relayvm_reloads", "Replaced model files, by the result of loading them.", [*of, "result"], registry=registry
        )

    def text(self) -> bytes:
        """The statistics in Prometheus' text format."""
        return generate_latest(self._registry)
