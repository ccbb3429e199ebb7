"""Models on a local Ray: rows of a dataset, an actor that is killed, a service.  Skipped where ray is not installed."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay

ray = pytest.importorskip("ray", reason="the package ray is not installed: pip install 'relayvm[ray]'")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "ray.md"
PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32]) { (nn.softmax(%x), argwhere(%x)) }"""


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    ray.init("local", num_cpus=3, object_store_memory=200 << 20, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "rows.relay"
    path.write_text(PROGRAM)
    return path


def inputs(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "x": np.full((i % 5, 2), i % 3, "float32")} for i in range(count)]


def check(rows: list[dict[str, Any]], count: int) -> None:
    """Each row once, with the results of a run of its own."""
    machine = relay.VirtualMachine(relay.compile(PROGRAM))
    assert sorted(row["id"] for row in rows) == list(range(count))
    given = inputs(count)
    for row in rows:
        for name, want in zip(("result.0", "result.1"), machine.run(given[row["id"]]["x"]), strict=True):
            assert np.array_equal(row[name], want.numpy())


def test_rows(model: Path) -> None:
    pool = ray.data.ActorPoolStrategy(size=2)
    table = ray.data.from_items(inputs(300)).map_batches(relay.ray.predictor(model), compute=pool, batch_size=32)
    check(table.take_all(), 300)


def test_killed_actor(model: Path, tmp_path: Path) -> None:
    marker, predictor = tmp_path / "killed", relay.ray.predictor(model)

    class Dying(predictor):  # type: ignore[misc, valid-type]
        def __call__(self, batch: Any) -> Any:
            if 150 in batch["id"] and not marker.exists():
                marker.write_text("")
                os.kill(os.getpid(), 9)
            return super().__call__(batch)

    table = ray.data.from_items(inputs(300), override_num_blocks=10)
    check(table.map_batches(Dying, compute=ray.data.ActorPoolStrategy(size=2), batch_size=10).take_all(), 300)
    assert marker.exists()


def answer(path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    return json.load(urllib.request.urlopen(f"http://127.0.0.1:8000{path}", data=data))


def test_service(model: Path) -> None:
    from ray import serve

    serve.run(relay.ray.deployment([f"rows={model}"], num_replicas=2))
    try:
        assert answer("/v2/models/rows")["inputs"][0]["shape"] == [-1, 2]
        for n in (0, 1, 3):
            tensor = {"name": "x", "datatype": "FP32", "shape": [n, 2], "data": [1.0] * (2 * n)}
            first = answer("/v2/models/rows/infer", {"inputs": [tensor]})["outputs"][0]
            assert first["shape"] == [n, 2] and first["data"] == [0.5] * (2 * n)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            answer("/v2/models/other/infer", {"inputs": []})
    finally:
        serve.shutdown()


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert blocks and "{'id': 2, 'result': array([[0.5, 0.5]" in capsys.readouterr().out
