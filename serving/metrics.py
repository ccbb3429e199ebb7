"""Statistics of a server in Prometheus' form; the processes of one server keep them in files, whose sums each process gives."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import prometheus_client.multiprocess
import prometheus_client.values
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

#: Modules without types.
multiprocess: Any = prometheus_client.multiprocess
values: Any = prometheus_client.values

#: Bounds of the histogram of seconds, and of requests in a batch.
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
#: prometheus-client's variable for the folder of files.
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def share(folder: Path) -> None:
    """Keep the statistics of this process in files of ``folder``, which the other processes of the server share."""
    os.environ[_FOLDER] = str(folder)
    values.ValueClass = values.MultiProcessValue()


def forget(folder: Path, pid: int) -> None:
    """Drop the figures that end with a process; its counts remain."""
    multiprocess.mark_process_dead(pid, str(folder))


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
        self.batches = Histogram(
            "relayvm_batch_requests", "Requests of each run of a model with batch dims.", of, registry=registry, buckets=_BATCHES
        )
        self.waiting = Gauge(
            "relayvm_queue_requests", "Requests that wait for a worker.", of, registry=registry, multiprocess_mode="livesum"
        )
        self.reloads = Counter(
            "relayvm_reloads", "Replaced model files, by the result of loading them.", [*of, "result"], registry=registry
        )

        self._counters = functools.cache(self.requests.labels)  # labels() itself takes longer than the count
        self._histograms = functools.cache(self.seconds.labels)

    def answered(self, model: str, version: str, transport: str, status: str, seconds: float) -> None:
        """Count an answered request; the seconds of good answers go to the histogram."""
        self._counters(model, version, transport, status).inc()
        if status == "OK":
            self._histograms(model, version).observe(seconds)

    def text(self) -> bytes:
        """The statistics of all processes in Prometheus' text format."""
        if _FOLDER not in os.environ:
            return generate_latest(self._registry)
        total = CollectorRegistry()
        multiprocess.MultiProcessCollector(total, os.environ[_FOLDER])
        return generate_latest(total)
