"""The behaviours of onnxruntime's Python interface for inference, one by one, as its documentation states them.

``TRUE``: behaviours that hold here, with the check; ``DIFFERENT``: those that do not, on purpose, with the error or the reason.
The page docs/coming-from-onnxruntime.md has the numbers of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import relayvm as relay
import relayvm.onnxruntime as ort

X = np.arange(12, dtype="float32").reshape(3, 4)
LIMIT = np.float32(2)
TEXT = """<ir_version: 9, opset_import: ["": 18]> api (float[rows, 4] x, float limit) => (float[rows, 4] y, int64[rows] n)
  <float limit = {1.5}> {
    y = Max(x, limit)
    axis = Constant <value_ints = [1]> ()
    n = ArgMax <axis = 1, keepdims = 0> (x)
}"""


class Case:
    """The subject of the checks: a session with a required and an optional input, and its model."""

    def __init__(self, folder: Path) -> None:
        self.model = onnx.parser.parse_model(TEXT)
        self.model.producer_name, self.model.domain, self.model.doc_string = "maker", "test", "about"
        self.model.graph.doc_string, self.model.model_version = "a graph", 3
        self.model.metadata_props.add(key="k", value="v")
        self.path = folder / "m.onnx"
        onnx.save(self.model, self.path)
        self.session = ort.InferenceSession(str(self.path), providers=["CPUExecutionProvider"])

    def run(self, **feed: Any) -> list[Any]:
        return self.session.run(None, {"x": X, **feed})


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("api"))


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    with pytest.raises(error):
        call()
    return True


def bound(case: Case, **output: Any) -> ort.IOBinding:
    binding = case.session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", **output)
    return binding


def copied(case: Case) -> bool:
    y = np.zeros((3, 4), "float32")
    where = {"element_type": np.float32, "shape": y.shape, "buffer_ptr": y.ctypes.data}
    case.session.run_with_iobinding(bound(case, device_type="cpu", device_id=0, **where))
    return bool((y == np.maximum(X, 1.5)).all())


def ran(case: Case) -> ort.IOBinding:
    binding = bound(case)
    case.session.run_with_iobinding(binding)
    return binding


def value(array: Any = X) -> ort.OrtValue:
    return ort.OrtValue.ortvalue_from_numpy(array)


def with_options(case: Case, **options: Any) -> ort.InferenceSession:
    return ort.InferenceSession(case.path, ort.SessionOptions(**options))


def set_entry(options: Any, kind: str) -> bool:
    getattr(options, f"add_{kind}_config_entry")("a", "b")
    return bool(getattr(options, f"get_{kind}_config_entry")("a") == "b")


def fixed(case: Case) -> list[Any]:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("rows", 3)
    return list(ort.InferenceSession(case.path, options).get_inputs()[0].shape)


def written(array: np.ndarray) -> np.ndarray:
    made = value(array.copy())
    made.update_inplace(array + 1)
    return made.numpy()


Y = np.maximum(X, 1.5)
TRUE: list[tuple[str, str, Callable[[Case], object]]] = [
    ("making a session", "from the text of a path", lambda c: ort.InferenceSession(str(c.path))),
    ("making a session", "from a Path", lambda c: ort.InferenceSession(c.path)),
    ("making a session", "from bytes", lambda c: ort.InferenceSession(c.model.SerializeToString())),
    ("making a session", "with options by position", lambda c: ort.InferenceSession(c.path, ort.SessionOptions())),
    ("making a session", "with options by name", lambda c: ort.InferenceSession(c.path, sess_options=ort.SessionOptions())),
    ("making a session", "a provider with options", lambda c: ort.InferenceSession(c.path, None, [("CPUExecutionProvider", {})])),
    ("making a session", "providers beside provider_options",
     lambda c: ort.InferenceSession(c.path, providers=["CPUExecutionProvider"], provider_options=[{}])),
    ("making a session", "a missing file is NoSuchFile",
     lambda c: raises(ort.NoSuchFile, lambda: ort.InferenceSession("none.onnx"))),
    ("making a session", "a damaged model is InvalidProtobuf",
     lambda c: raises(ort.InvalidProtobuf, lambda: ort.InferenceSession(b"nonsense"))),
    ("making a session", "an argument that is no model is an error", lambda c: raises(ort.Fail, lambda: ort.InferenceSession(3))),
    ("facts", "names of inputs in order", lambda c: [a.name for a in c.session.get_inputs()] == ["x"]),
    ("facts", "inputs with a default are overridable initializers",
     lambda c: [(a.name, a.type, a.shape) for a in c.session.get_overridable_initializers()] == [("limit", "tensor(float)", [])]),
    ("facts", "names of outputs in order", lambda c: [a.name for a in c.session.get_outputs()] == ["y", "n"]),
    ("facts", "types", lambda c: [a.type for a in c.session.get_outputs()] == ["tensor(float)", "tensor(int64)"]),
    ("facts", "shapes: numbers, and names of open sizes", lambda c: c.session.get_inputs()[0].shape == ["rows", 4]),
    ("facts", "providers", lambda c: c.session.get_providers() == ["CPUExecutionProvider"]),
    ("facts", "options of providers", lambda c: c.session.get_provider_options() == {"CPUExecutionProvider": {}}),
    ("facts", "options of the session", lambda c: with_options(c, logid="l").get_session_options().logid == "l"),
    ("facts", "metadata: producer, domain, version",
     lambda c: [getattr(c.session.get_modelmeta(), k) for k in ("producer_name", "domain", "version")] == ["maker", "test", 3]),
    ("facts", "metadata: descriptions",
     lambda c: [getattr(c.session.get_modelmeta(), k) for k in ("description", "graph_description")] == ["about", "a graph"]),
    ("facts", "metadata: graph and map",
     lambda c: (c.session.get_modelmeta().graph_name, c.session.get_modelmeta().custom_metadata_map) == ("api", {"k": "v"})),
    ("runs", "None stands for all outputs, as numpy arrays", lambda c: [type(y) for y in c.run()] == [np.ndarray] * 2),
    ("runs", "outputs in the order of the names",
     lambda c: [y.dtype.kind for y in c.session.run(["n", "y"], {"x": X})] == ["i", "f"]),
    ("runs", "an output twice", lambda c: len(c.session.run(["y", "y"], {"x": X})) == 2),
    ("runs", "an overridable initializer has its default", lambda c: (c.run()[0] == Y).all()),
    ("runs", "an overridable initializer is replaced", lambda c: (c.run(limit=LIMIT)[0] == np.maximum(X, 2)).all()),
    ("runs", "an open size changes from run to run", lambda c: c.session.run(["n"], {"x": X[:0]})[0].shape == (0,)),
    ("runs", "arrays that are not contiguous", lambda c: (c.run(x=np.asfortranarray(X))[0] == Y).all()),
    ("runs", "results are the caller's: a later run leaves them", lambda c: (c.run()[0] is not c.run()[0])),
    ("runs", "options of a run", lambda c: c.session.run(["n"], {"x": X}, ort.RunOptions())[0].shape == (3,)),
    ("runs", "a missing input is InvalidArgument", lambda c: raises(ort.InvalidArgument, lambda: c.session.run(None, {}))),
    ("runs", "an unknown input is InvalidArgument", lambda c: raises(ort.InvalidArgument, lambda: c.run(z=X))),
    ("runs", "another dtype is InvalidArgument", lambda c: raises(ort.InvalidArgument, lambda: c.run(x=X.astype("float64")))),
    ("runs", "another rank is InvalidArgument", lambda c: raises(ort.InvalidArgument, lambda: c.run(x=X[0]))),
    ("runs", "another size of a fixed axis is InvalidArgument", lambda c: raises(ort.InvalidArgument, lambda: c.run(x=X[:, :3]))),
    ("runs", "an unknown output is an error", lambda c: raises(ort.Fail, lambda: c.session.run(["z"], {"x": X}))),
    ("runs", "values of the runtime in and out",
     lambda c: [v.shape() for v in c.session.run_with_ort_values(None, {"x": value()})] == [[3, 4], [3]]),
    ("values", "of an array, and back", lambda c: (value().numpy() == X).all()),
    ("values", "shape", lambda c: value().shape() == [3, 4]),
    ("values", "type", lambda c: value(X.astype("int64")).data_type() == "tensor(int64)"),
    ("values", "number of the type", lambda c: value().element_type() == onnx.TensorProto.FLOAT),
    ("values", "device", lambda c: value().device_name() == "cpu"),
    ("values", "kinds", lambda c: [value().is_tensor(), value().is_sparse_tensor(), value().is_tensor_sequence()] == [1, 0, 0]),
    ("values", "whether there is a value", lambda c: value().has_value()),
    ("values", "address", lambda c: value().data_ptr() == X.ctypes.data),
    ("values", "of a shape and a type", lambda c: ort.OrtValue.ortvalue_from_shape_and_type([2], np.int32).numpy().shape == (2,)),
    ("values", "of bits, with ONNX's type",
     lambda c: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, "uint16"), 16).data_type() == "tensor(bfloat16)"),
    ("values", "update in place", lambda c: (written(X) == X + 1).all()),
    ("values", "DLPack", lambda c: (np.from_dlpack(value()) == X).all()),
    ("bindings", "an input of the host, an output that is allocated", lambda c: (ran(c).copy_outputs_to_cpu()[0] == Y).all()),
    ("bindings", "an output into the caller's memory", copied),
    ("bindings", "outputs as values", lambda c: [v.shape() for v in ran(c).get_outputs()] == [[3, 4]]),
    ("bindings", "outputs as a vector of values", lambda c: len(ran(c).get_outputs_as_ortvaluevector()) == 1),
    ("bindings", "an input and an output that are values",
     lambda c: [b.bind_ortvalue_input("x", value()) or b.bind_ortvalue_output("y", value(Y)) for b in [c.session.io_binding()]]),
    ("bindings", "clear inputs: a run then lacks them", lambda c: raises(
        ort.InvalidArgument, lambda: [b.clear_binding_inputs() or c.session.run_with_iobinding(b) for b in [bound(c)]])),
    ("bindings", "clear outputs", lambda c: [b.clear_binding_outputs() or b.synchronize_outputs() for b in [bound(c)]]),
    ("bindings", "synchronize inputs", lambda c: bound(c).synchronize_inputs() is None),
    ("options", "threads", lambda c: with_options(c, intra_op_num_threads=relay.get_num_threads()).run(["n"], {"x": X})),
    ("options", "levels of optimisation", lambda c: [
        with_options(c, graph_optimization_level=level) for level in ort.GraphOptimizationLevel]),
    ("options", "mode of execution", lambda c: with_options(c, execution_mode=ort.ExecutionMode.ORT_PARALLEL)),
    ("options", "memory, logs and determinism are accepted", lambda c: with_options(
        c, enable_cpu_mem_arena=False, enable_mem_pattern=False, log_severity_level=3, use_deterministic_compute=True)),
    ("options", "the size of a named axis", lambda c: fixed(c) == [3, 4]),
    ("options", "entries of a session", lambda c: set_entry(ort.SessionOptions(), "session")),
    ("options", "entries of a run", lambda c: set_entry(ort.RunOptions(), "run")),
    ("options", "whether options have providers", lambda c: not ort.SessionOptions().has_providers()),
    ("package", "available providers", lambda c: "CPUExecutionProvider" in ort.get_available_providers()),
    ("package", "all providers", lambda c: set(ort.get_available_providers()) <= set(ort.get_all_providers())),
    ("package", "device", lambda c: ort.get_device() in ("CPU", "GPU")),
    ("package", "logs, seeds and telemetry are accepted", lambda c: [
        ort.set_default_logger_severity(3), ort.set_default_logger_verbosity(0), ort.set_seed(1), ort.enable_telemetry_events()]),
    ("package", "its version, which is relayvm's", lambda c: ort.__version__ == relay.__version__),
    ("package", "fallback is switched", lambda c: c.session.disable_fallback() is c.session.enable_fallback() is None),
]  # fmt: skip
#: The error of each difference; a text: the reason, where no call is refused.
DIFFERENT: list[tuple[str, str, str | Callable[[Case], object]]] = [
    ("making a session", "a file in onnxruntime's own format", lambda c: ort.InferenceSession(b"ORTM0000")),
    ("facts", "a profile of the session", lambda c: c.session.end_profiling()),
    ("facts", "the time when a profile began", lambda c: c.session.get_profiling_start_time_ns()),
    ("facts", "another provider for a session", lambda c: c.session.set_providers(["NoProvider"])),
    ("runs", "no names of outputs", lambda c: c.session.run([], {"x": X})),
    ("runs", "terminate of a run", "Ctrl-C ends a run, as any Python code"),
    ("values", "sparse tensors", "a sparse initialiser of a model is dense in the program"),
    ("values", "values of sequences", "a sequence is a list of values"),
    ("bindings", "an address of a GPU's memory", lambda c: bound(c).bind_input("x", "cuda", 0, np.float32, X.shape, 64)),
    ("options", "profiling", lambda c: with_options(c, enable_profiling=True)),
    ("options", "the optimised model as a file", lambda c: with_options(c, optimized_model_filepath="m")),
    ("options", "a library of custom operators", lambda c: ort.SessionOptions().register_custom_ops_library("a.so")),
    ("options", "weights given by name", lambda c: ort.SessionOptions().add_initializer("w", value())),
    ("options", "weights of files given by name", lambda c: ort.SessionOptions().add_external_initializers(["w"], [value()])),
    ("options", "the size of an axis by its denotation",
     lambda c: ort.SessionOptions().add_free_dimension_override_by_denotation("BATCH", 1)),
    ("package", "allocators, build information", "memory is the machine's; relayvm env has the facts of the installation"),
]  # fmt: skip


@pytest.mark.parametrize("check", [pytest.param(row[2], id=f"{row[0]}: {row[1]}") for row in TRUE])
@pytest.mark.filterwarnings("ignore::relayvm.onnxruntime.ProviderWarning")
def test_a_behaviour_holds(case: Case, check: Callable[[Case], object]) -> None:
    found = check(case)
    assert found is None or isinstance(found, (list, ort.InferenceSession)) or found


@pytest.mark.parametrize(
    "call", [pytest.param(row[2], id=f"{row[0]}: {row[1]}") for row in DIFFERENT if not isinstance(row[2], str)]
)
@pytest.mark.filterwarnings("ignore::relayvm.onnxruntime.ProviderWarning")
def test_a_difference_is_an_error(case: Case, call: Callable[[Case], object]) -> None:
    with pytest.raises(relay.RelayError):
        call(case)


def test_the_page_has_the_numbers() -> None:
    page = (Path(__file__).parents[3] / "docs" / "coming-from-onnxruntime.md").read_text()
    found = {row[0]: (int(row[1]), int(row[2])) for row in re.findall(r"^\| ([a-z ]+) \| (\d+) \| (\d+) \|", page, re.MULTILINE)}
    true, different = Counter(row[0] for row in TRUE), Counter(row[0] for row in DIFFERENT)
    assert found == {area: (true[area], different[area]) for area in true} | {"all": (len(TRUE), len(DIFFERENT))}
