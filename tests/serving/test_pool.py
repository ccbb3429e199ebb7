"""The workers of a model: queue, deadlines, clients that leave, workers that end, and batches."""

from __future__ import annotations

import asyncio
import ctypes
import json
import time
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.serving.batches import batch_plan, check_batches
from relayvm.serving.pool import Closed, Job, Pool, arrays
from relayvm.serving.protocol.limits import Limits
from relayvm.serving.protocol.refusals import RequestError
from relayvm.serving.protocol.served_model import ServedModel
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.diagnostics.source import RelayError

from .asgi import asked

ONE = Limits(workers=1, queue=2, reload_ms=0)
#: A run that takes some tenths of a second.
LONG = np.int32(1_000_000)


def model(models: Path, name: str) -> ServedModel:
    return ServedModel.of(name, "1", relay.Executable.load(models / f"{name}.rvm"))


def job(*arguments: np.ndarray) -> Job:
    return Job(arguments, lambda results: [a.copy() for a in results])


@pytest.fixture
def spin(models: Path) -> Iterator[Pool]:
    pool = Pool(model(models, "spin"), None, ONE)
    yield pool
    pool.close()


def busy(pool: Pool) -> Job:
    """A job that has begun to run."""
    first = job(np.asarray(LONG))
    pool.submit(first)
    while not first.answer.running():
        time.sleep(0.001)
    return first


def test_a_full_queue_refuses(spin: Pool) -> None:
    first = busy(spin)
    others = [job(np.asarray(np.int32(n))) for n in (1, 2)]
    for each in others:
        spin.submit(each)
    with pytest.raises(RequestError) as error:
        spin.submit(job(np.asarray(np.int32(3))))
    assert str(error.value) == "error: the queue of the model spin is full: 2 requests\nhelp: try again later"
    assert [float(each.answer.result(60)[0]) for each in (first, *others)] == [LONG, 1, 2]


def test_a_withdrawn_job_leaves_the_queue(spin: Pool) -> None:
    first, second = busy(spin), job(np.asarray(np.int32(1)))
    spin.submit(second)
    spin.withdraw(second)
    assert spin.waiting == 0 and second.answer.cancelled() and float(first.answer.result(60)[0]) == LONG


def test_a_closed_pool_finishes_its_queue(spin: Pool) -> None:
    first, second = busy(spin), job(np.asarray(np.int32(1)))
    spin.submit(second)
    spin.close()
    assert first.answer.done() and float(second.answer.result(0)[0]) == 1
    with pytest.raises(Closed):
        spin.submit(job(np.asarray(np.int32(1))))


def test_the_native_loop_runs_beside_python(spin: Pool) -> None:
    """A worker that held the interpreter's lock for its run would let this thread count to almost nothing."""
    first, counted = busy(spin), 0
    while not first.answer.done():
        counted += 1
    assert counted > 10_000


def test_a_worker_that_is_killed_is_replaced(spin: Pool) -> None:
    """The exception reaches the worker between two steps of Python; its job runs again."""
    for _ in range(5):
        jobs = [job(np.asarray(np.int32(200_000))), job(np.asarray(np.int32(5)))]
        for each in jobs:
            spin.submit(each)
        (worker,) = spin._threads
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(SystemExit))
        assert [float(each.answer.result(60)[0]) for each in jobs] == [200_000, 5]
        while worker.is_alive():
            spin.submit(last := job(np.asarray(np.int32(1))))
            assert float(last.answer.result(60)[0]) == 1


def test_a_request_that_ends_every_worker_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(model(models, "spin"), None, ONE)
    monkeypatch.setattr("relayvm.serving.pool.arrays", lambda *_: (_ for _ in ()).throw(SystemExit))
    bad = job(np.asarray(np.int32(1)))
    pool.submit(bad)
    with pytest.raises(RequestError, match="the workers that ran the request ended"):
        bad.answer.result(60)
    monkeypatch.undo()
    good = job(np.asarray(np.int32(1)))
    pool.submit(good)
    assert float(good.answer.result(60)[0]) == 1
    pool.close()


# ---- through the application -------------------------------------------------------------------------------------------------


@pytest.fixture
def spinning(models: Path) -> Iterator[tuple[Any, Pool]]:
    from relayvm.serving.rest import application

    repository = relay.serving.load([models / "spin.rvm"], limits=replace(ONE, queue=1))
    yield application(repository, owns=False), repository.pool("spin")
    repository.close()


def body(n: int, **parameters: Any) -> list[bytes]:
    inputs = [{"name": "n", "datatype": "INT32", "shape": [], "data": [n]}]
    return [json.dumps({"inputs": inputs, "parameters": parameters}).encode()]


PATH = "/v2/models/spin/infer"


def test_deadlines_backpressure_and_a_client_that_leaves(spinning: tuple[Any, Pool]) -> None:
    app, pool = spinning
    started: list[int] = []
    pool._observe = started.append

    async def scenario() -> None:
        running = asyncio.ensure_future(asked(app, PATH, body(int(LONG))))
        while not started:
            await asyncio.sleep(0.001)
        late = await asked(app, PATH, body(1, timeout=1000))
        assert (late.status, late.data["error"]) == (504, "no answer within 1 ms (the parameter timeout, in microseconds)")
        assert pool.waiting == 0
        leaves = asyncio.Event()
        waiting = asyncio.ensure_future(asked(app, PATH, body(2), leaves=leaves))
        while not pool.waiting:
            await asyncio.sleep(0.001)
        refused = await asked(app, PATH, body(3))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        leaves.set()
        assert (await waiting).status == 499 and pool.waiting == 0
        assert (await running).data["outputs"][0]["data"] == [float(LONG)]

    asyncio.run(scenario())


def test_memory_for_requests_is_bounded(models: Path) -> None:
    from relayvm.serving.rest import application

    repository = relay.serving.load([models / "kept.rvm"], limits=Limits(pending_bytes=100, reload_ms=0, workers=1))
    app = application(repository, owns=False)
    found = asyncio.run(asked(app, "/v2/models/kept/infer", [b" " * 101]))
    assert (found.status, found.data["error"]) == (
        429, "the requests that are read, queued or run have 0 of at most 100 bytes (try again later)",
    )  # fmt: skip
    for _ in range(3):  # the bytes of a refused request are free again
        assert asyncio.run(asked(app, "/v2/models/kept/infer", [b" " * 90])).status == 400
    repository.close()


def test_memory_of_a_run_is_bounded(models: Path) -> None:
    from relayvm.serving.rest import application

    repository = relay.serving.load([models / "rows.rvm"], limits=Limits(memory_bytes=1 << 16, reload_ms=0, workers=1))
    app, n = application(repository, owns=False), 1 << 14
    inputs = [
        {"name": name, "datatype": datatype, "shape": [n, *rest], "parameters": {"binary_data_size": size * n}}
        for name, datatype, rest, size in (("x", "FP32", [4], 16), ("k", "INT32", [], 4), ("on", "BOOL", [], 1))
    ]
    head = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    found = asyncio.run(asked(app, "/v2/models/rows/infer", [head + bytes(21 * n)], headers))
    assert (found.status, found.data["code"]) == (413, "run/out-of-memory")
    repository.close()


# ---- batches -----------------------------------------------------------------------------------------------------------------


def request(n: int, seed: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, 4)).astype("float32"), random.integers(0, 9, n, "int32"), random.random(n) < 0.5


def test_a_batch_has_the_results_of_its_requests(models: Path) -> None:
    served = model(models, "rows")
    plan = batch_plan(served, ["n"])
    assert plan is not None
    counts: list[int] = []
    pool = Pool(served, plan, Limits(workers=1, reload_ms=0), counts.append)
    jobs = [job(*request(n, n)) for n in (0, 1, 2, 7, 0, 3)]
    with pool._changed:  # all wait when the worker looks
        for each in jobs:
            each.key = plan.key(each.arguments)
            pool._queue.append(each)
        pool._changed.notify()
    wait([each.answer for each in jobs], 60)
    pool.close()
    assert counts == [6]
    for each in jobs:
        x, k, on = each.arguments
        for found, wanted in zip(each.answer.result(0), (2 * x, k + 1, ~on), strict=True):
            assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("name", "dims", "text"),
    [
        ("shares", ["n"], "the model shares cannot be batched by ?n: result of a request of 1 rows differs alone and in a batch"),
        ("rows", ["m"], "the model rows cannot be batched by ?m: the input x is Tensor[(?n, 4), float32]"),
        ("kept", ["n"], "the model kept cannot be batched by ?n: the output result is Tensor[(?), float32]"),
        ("spin", ["n"], "the model spin cannot be batched by ?n: the input n is int32"),
    ],
)
def test_a_batch_dim_that_is_refused(models: Path, name: str, dims: list[str], text: str) -> None:
    served = model(models, name)
    machine = VirtualMachine(served.exe)
    with pytest.raises(RelayError) as error:
        plan = batch_plan(served, dims)
        assert plan is not None
        check_batches(plan, lambda arguments: [a.copy() for a in arrays(machine, arguments)])
    assert error.value.diagnostics[0].message == text and error.value.code == "serve/batch"


def test_a_good_batch_dim_is_accepted(models: Path) -> None:
    repository = relay.serving.load([models / "rows.rvm"], limits=Limits(reload_ms=0, workers=1), batch=["n"])
    repository.close()
