"""``torch.compile`` with the backend ``relayvm``: results, one compilation for all sizes, and the parts that stay in torch."""

from __future__ import annotations

import configparser
import threading
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from relayvm.compiler.torch_frontend.dynamo import compiled_graph  # noqa: E402  torch may be missing
from relayvm.compiler.torch_frontend.dynamo.backend import BackendWarning, backend  # noqa: E402

from .beside_torch import Of  # noqa: E402
from .modules import MODULES  # noqa: E402

nn = torch.nn
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are compiled."""
    torch._dynamo.reset()
    made: list[Any] = []
    initial = compiled_graph.CompiledGraph.__init__

    def noted(self: Any, *given: Any) -> None:
        initial(self, *given)
        made.append(self)

    monkeypatch.setattr(compiled_graph.CompiledGraph, "__init__", noted)
    return made


def _flat(result: Any) -> list[Any]:
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else [result]
    return [p for p in parts if p is not None]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_compiled_once_for_all_sizes(name: str, graphs: list[Any]) -> None:
    make, shape = MODULES[name]
    torch.manual_seed(3)
    module, beside = make().eval(), make().eval()
    beside.load_state_dict(module.state_dict())
    run = torch.compile(module, backend=backend, dynamic=True)
    with torch.no_grad():
        for n in (5, 3, 8, 13):
            x = torch.randn(shape(n))
            found, wanted = run(x), beside(x)
            for a, b in zip(_flat(found), _flat(wanted), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert [graph.compilations for graph in graphs] == [1]


def test_sizes_of_zero_and_one(graphs: list[Any]) -> None:
    module = MODULES["perceptron"][0]().eval()
    run = torch.compile(module, backend=backend, dynamic=True)
    with torch.inference_mode():
        for n in (4, 0, 1):
            x = torch.randn(n, 8)
            torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-5)


def test_parameters_that_are_written_are_no_longer_constants(graphs: list[Any]) -> None:
    module = nn.Linear(3, 2).eval()
    run = torch.compile(module, backend=backend, dynamic=True)
    x = torch.randn(4, 3)
    with torch.no_grad():
        run(x)
        for value in (1.0, 2.0):
            module.weight.fill_(value)
            torch.testing.assert_close(run(x), module(x))
    assert [(graph.compilations, len(graph.own)) for graph in graphs] == [(2, 1)]


def test_operators_without_a_converter_stay_in_torch(graphs: list[Any]) -> None:
    module = Of(lambda x: (torch.linalg.inv(x @ x.T + torch.eye(x.shape[0])) * 2).relu() + 1)
    run = torch.compile(module, backend=backend, dynamic=True)
    with torch.no_grad(), pytest.warns(BackendWarning, match=r"no converter for aten\.linalg_inv_ex\.default \(1 call\)"):
        x = torch.randn(4, 3)
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-4)
    assert len(graphs) == 2
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", BackendWarning)
        x = torch.randn(6, 3)
        torch.testing.assert_close(run(x), module(x), rtol=1e-4, atol=1e-4)


def test_gradients_are_computed_by_torch(graphs: list[Any]) -> None:
    module = nn.Linear(3, 1)
    run = torch.compile(module, backend=backend, dynamic=True)
    with pytest.warns(BackendWarning, match=r"computes no gradients: torch runs this graph"):
        run(torch.randn(4, 3)).sum().backward()
    assert module.weight.grad is not None and not graphs


def test_threads_have_machines_of_their_own(graphs: list[Any]) -> None:
    module = MODULES["perceptron"][0]().eval()
    run = torch.compile(module, backend=backend, dynamic=True)
    x = torch.randn(6, 8)
    found: list[Any] = []

    def work() -> None:
        with torch.no_grad():
            found.append([run(x) for _ in range(20)])

    with torch.no_grad():
        wanted = run(x)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(torch.equal(a, wanted) for results in found for a in results)


def test_options_are_configuration_keys(graphs: list[Any]) -> None:
    module = nn.ReLU()
    with torch.no_grad():
        torch.compile(module, backend=backend, options={"opt_level": 0})(torch.randn(3))
        torch._dynamo.reset()
        with pytest.raises(Exception, match="there is no configuration key 'level'"):
            torch.compile(module, backend=backend, options={"level": 0})(torch.randn(3))


def test_torch_finds_the_backend_by_name() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    name, _, place = settings["options.entry_points"]["torch_dynamo_backends"].strip().partition(" = ")
    module, _, function = place.partition(":")
    assert name == "relayvm" and getattr(import_module(module), function) is backend
