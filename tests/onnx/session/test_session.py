"""Sessions with onnxruntime's interface: facts, runs, values, bindings, options, and mistakes."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import relayvm as relay
import relayvm.onnxruntime as ort

from ...emulator import emulator
from ...emulator.platform import plugged_in

TEXT = """<ir_version: 9, opset_import: ["": 18]> rows (float[rows, 4] x, float limit) => (float[found, 4] kept, float[4] total) {
    axis = Constant <value_ints = [1]> ()
    sums = ReduceSum <keepdims = 0> (x, axis)
    is_above = Greater(sums, limit)
    kept = Compress <axis = 0> (x, is_above)
    first = Constant <value_ints = [0]> ()
    total = ReduceSum <keepdims = 0> (x, first)
}"""
LIMIT = np.float32(2)


@pytest.fixture(scope="module")
def model() -> Any:
    found = onnx.parser.parse_model(TEXT)
    found.producer_name, found.model_version = "a test", 7
    found.metadata_props.add(key="labels", value="a,b")
    return found


@pytest.fixture(scope="module")
def session(model: Any) -> ort.InferenceSession:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def rows(n: int) -> np.ndarray:
    return np.arange(4 * n, dtype="float32").reshape(n, 4) / 4


def test_facts(session: ort.InferenceSession) -> None:
    assert [(a.name, a.type, a.shape) for a in session.get_inputs()] == [
        ("x", "tensor(float)", ["rows", 4]), ("limit", "tensor(float)", []),
    ]  # fmt: skip
    assert [(a.name, a.type) for a in session.get_outputs()] == [("kept", "tensor(float)"), ("total", "tensor(float)")]
    assert session.get_outputs()[1].shape == [4] and session.get_providers() == ["CPUExecutionProvider"]
    meta = session.get_modelmeta()
    assert (meta.producer_name, meta.graph_name, meta.version, meta.custom_metadata_map) == (
        "a test",
        "rows",
        7,
        {"labels": "a,b"},
    )


@pytest.mark.parametrize("n", [0, 1, 5])
def test_runs(session: ort.InferenceSession, n: int) -> None:
    x = rows(n)
    kept, total = session.run(None, {"x": x, "limit": LIMIT})
    np.testing.assert_array_equal(kept, x[x.sum(1) > LIMIT])
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-6)
    (only,) = session.run(["total"], {"x": x, "limit": LIMIT}, ort.RunOptions())
    np.testing.assert_array_equal(only, total)


def test_values_stay_where_they_are(session: ort.InferenceSession) -> None:
    x = ort.OrtValue.ortvalue_from_numpy(rows(5))
    limit = ort.OrtValue.ortvalue_from_numpy(LIMIT)
    kept, total = session.run_with_ort_values(None, {"x": x, "limit": limit})
    assert (kept.shape(), kept.data_type(), kept.device_name()) == ([4, 4], "tensor(float)", "cpu")
    again = session.run_with_ort_values(["total"], {"x": kept, "limit": limit})[0]
    np.testing.assert_allclose(again.numpy(), kept.numpy().sum(0))
    zeros = ort.OrtValue.ortvalue_from_shape_and_type([4], np.float32)
    zeros.update_inplace(total.numpy())
    np.testing.assert_array_equal(np.from_dlpack(zeros), total.numpy())
    with pytest.raises(relay.InputError, match="does not fit a value float32"):
        zeros.update_inplace(np.zeros(3, "float32"))


def test_bound_memory(session: ort.InferenceSession) -> None:
    binding, x, total = session.io_binding(), rows(5), np.zeros(4, "float32")
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_cpu_input("limit", LIMIT)
    binding.bind_output("total", "cpu", 0, np.float32, total.shape, total.ctypes.data)
    binding.bind_output("kept")
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(total, x.sum(0))
    assert [a.shape for a in binding.copy_outputs_to_cpu()] == [(4,), (4, 4)]
    assert [value.shape() for value in binding.get_outputs()] == [[4], [4, 4]]
    binding.clear_binding_outputs()
    session.run_with_iobinding(binding)
    assert [value.shape() for value in binding.get_outputs()] == [[4, 4], [4]]
    with pytest.raises(relay.InputError, match="an address of a GPU cannot be bound"):
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, 64)


def test_threads_run_at_the_same_time(session: ort.InferenceSession) -> None:
    found: dict[int, Any] = {}

    def work(n: int) -> None:
        found[n] = [session.run(["total"], {"x": rows(n), "limit": LIMIT})[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, results in found.items():
        assert all((r == rows(n).sum(0)).all() for r in results)
    assert len(found) == 3


def test_a_run_in_another_thread(session: ort.InferenceSession) -> None:
    done, heard = threading.Event(), []

    def callback(results: list[Any], user_data: Any, error: str) -> None:
        heard.append((results, user_data, error))
        done.set()

    session.run_async(["total"], {"x": rows(2), "limit": LIMIT}, callback, "mine")
    assert done.wait(30)
    ((results, mine, error),) = heard
    assert (len(results), mine, error) == (1, "mine", "")
    done.clear()
    session.run_async(None, {"x": rows(2)}, callback, None)
    assert done.wait(30) and heard[1][0] == [] and "limit" in heard[1][2]


def test_options(model: Any, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_free_dimension_override_by_name("rows", 3)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    fixed = relay.onnxruntime.InferenceSession(tmp_path / "m.onnx", options)
    assert fixed.get_inputs()[0].shape == [3, 4] and fixed.get_session_options() is options
    assert fixed.run(["total"], {"x": rows(3), "limit": LIMIT})[0].shape == (4,)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: s.run(None, {"x": rows(2)}), "@main: no value for %limit"),
        (lambda s: s.run(["boxes"], {"x": rows(2), "limit": LIMIT}), "boxes"),
        (
            lambda s: s.run("total", {}),
            "output_names must be a list of names, or None, not the str 'total'",
        ),
        (lambda s: s.run([], {}), "no output is asked for"),
        (lambda s: s.run(None, [1]), "InferenceSession.run: input_feed must be"),
        (lambda s: ort.InferenceSession(3), "path_or_bytes must be the path of a model, or its bytes, not the int 3"),
        (lambda s: ort.InferenceSession("missing.onnx"), "missing.onnx"),
        (lambda s: ort.InferenceSession(b"", ort.SessionOptions(enable_profiling=True)), "enable_profiling has no effect"),
        (lambda s: ort.InferenceSession(b"", ort.SessionOptions(optimized_model_filepath="m")), "no optimised model of ONNX"),
        (lambda s: ort.SessionOptions().register_custom_ops_library("a.so"), "a library of custom operators cannot be loaded"),
        (lambda s: ort.InferenceSession(b"", providers="CPUExecutionProvider"), "providers must be a list of names"),
    ],
)
def test_mistakes(session: ort.InferenceSession, call: Any, message: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        call(session)
    assert message in str(caught.value)


def test_providers(model: Any) -> None:
    assert ort.get_available_providers()[-1] == "CPUExecutionProvider" and ort.get_all_providers()[0] == "CUDAExecutionProvider"
    assert ort.get_device() in ("CPU", "GPU")
    data = model.SerializeToString()
    with pytest.warns(ort.ProviderWarning, match="'TensorrtExecutionProvider' is not used: there is no such provider"):
        ort.InferenceSession(data, providers=["TensorrtExecutionProvider", ("CPUExecutionProvider", {})])
    with (
        pytest.warns(ort.ProviderWarning),
        pytest.raises(relay.ConfigError, match="none of the providers can be used: NoProvider"),
    ):
        ort.InferenceSession(data, providers=["NoProvider"])


@pytest.mark.skipif(emulator.available() is not None, reason=str(emulator.available()))
def test_a_computer_without_a_gpu(model: Any) -> None:
    with plugged_in(proven=False):
        emulator.set("no_device", 1)
        assert ort.get_available_providers() == ["CPUExecutionProvider"] and ort.get_device() == "CPU"
        with pytest.warns(ort.ProviderWarning, match="'CUDAExecutionProvider' is not used: this machine has no such device"):
            session = ort.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        assert session.get_providers() == ["CPUExecutionProvider"]
        with pytest.warns(ort.ProviderWarning), pytest.raises(relay.ConfigError) as caught:
            ort.InferenceSession(model.SerializeToString(), providers=["NoProvider"])
        assert str(caught.value).endswith("help: available: CPUExecutionProvider")


def test_errors_are_where_onnxruntime_has_them(model: Any) -> None:
    state = importlib.import_module("relayvm.onnxruntime.capi.onnxruntime_pybind11_state")
    assert ort.capi.onnxruntime_pybind11_state is state
    with pytest.raises(state.InvalidArgument):
        ort.InferenceSession(model.SerializeToString()).run(None, {})
    with pytest.raises(state.NoSuchFile):
        ort.InferenceSession("no_such_model.onnx")
    assert all(issubclass(getattr(state, name), state.Fail) for name in state.__all__)
