"""The host's time per launch: a program of tiny operators, not fused; and per call of a program of one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import relayvm as relay

from .. import rivals
from ..contest import Contestant, contest, ratio
from ..figures import Goal, NotRun, Recorder
from ..machines import OURS, check, placed
from ..plain import Gpu
from ..scale import Scale

SIZE = 16
#: The operators in turn: ours, numpy's, ONNX's, and the second operand.  The values stay near 1.
STEPS = (("add", np.add, "Add", 0.25), ("multiply", np.multiply, "Mul", 0.8), ("maximum", np.maximum, "Max", 0.0))
ONE_BY_ONE, REPLAYED = Goal(at_most=2500), Goal(at_most=1000)
AHEAD, NOT_SLOWER = Goal(at_least=3), Goal(at_most=1.25)
_UNIT = "ns per launch"
#: Numbers of arguments of a program of one kernel, and the goal for one argument.
ARGUMENTS, CALL = (1, 2, 5), Goal(at_most=8000)
#: The bound: launches of an empty kernel in a loop of machine code.
DRIVER = "driver, empty kernels"


def measure(record: Recorder, scale: Scale) -> None:
    """Host time per launch, one by one and replayed as a graph; torch, cupy and onnxruntime beside it.  Then that per call."""
    with record.task("a call: host"):
        _calls(record, scale)
    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    contestants: dict[str, Contestant] = {}
    replaying = _ours(scale, x, contestants)
    for who, make in (
        ("torch eager", _torch), ("torch graph", _torch_graph), ("cupy", _cupy), ("onnxruntime", _onnxruntime),
    ):  # fmt: skip
        with record.task("tiny operators", who, _UNIT):
            contestants[who] = make(scale.chain, x)
    before = replaying.counters["replays"]
    gpu = Gpu(0)
    try:
        contestants[DRIVER] = gpu.chains(scale.chain)
        found = contest(contestants, scale.rounds, calls=scale.burst)
    finally:
        gpu.close()
    replayed = replaying.counters["replays"] - before
    goals = {f"{OURS}, graphs=off": ONE_BY_ONE, f"{OURS}, graphs=on": REPLAYED}
    for who, samples in found.items():
        record.figure("tiny operators: host", who, _UNIT, samples.host.per(scale.chain), goals.get(who))
        record.figure("tiny operators: whole", who, _UNIT, samples.whole.per(scale.chain))
    ours, torch = found[f"{OURS}, graphs=off"], found.get("torch eager")
    if torch is None:
        record.missing("tiny operators: host", "torch eager / relayvm", "times", "there is no torch", AHEAD)
    else:
        record.figure("tiny operators: host", "torch eager / relayvm", "times", ratio(torch.host_ns, ours.host_ns), AHEAD)
    one_by_one = f"{OURS}, graphs=off / {DRIVER}"
    record.figure("tiny operators: host", one_by_one, "times", ratio(ours.host_ns, found[DRIVER].host_ns), NOT_SLOWER)
    record.facts(launches_in_a_call=scale.chain, calls_in_a_burst=scale.burst, replays=replayed)
    if replayed < scale.rounds * scale.burst:
        raise RuntimeError(f"with graphs=on only {replayed} of {scale.rounds * scale.burst} calls were replayed")


def _ours(scale: Scale, x: np.ndarray, contestants: dict[str, Contestant]) -> relay.VirtualMachine:
    """Two contestants; the machine of the one that replays."""
    want = on_host(scale.chain, x)
    for graphs in ("off", "on"):
        ready = placed(program(scale.chain), [x], fuse="off", graphs=graphs)
        vm = ready.vm
        check(vm, [x], want, 1e-5)
        before = vm.counters["launches"]
        vm.run(x)
        if vm.counters["launches"] - before != scale.chain:
            raise RuntimeError(f"{scale.chain} operators made {vm.counters['launches'] - before} launches")
        one = ready.contestant()
        for _ in range(8):  # results alternate between addresses; each is met, captured, and then replayed
            one.run()
        one.finish()
        contestants[f"{OURS}, graphs={graphs}"] = one
    return vm


def program(count: int) -> str:
    """``count`` operators in a row."""
    lines, last = [], "%x"
    for i in range(count):
        name, _, _, operand = STEPS[i % len(STEPS)]
        lines.append(f"  let %v{i} = {name}({last}, {operand}f);")
        last = f"%v{i}"
    return "def @main(%x: Tensor[(?), float32]) {\n" + "\n".join(lines) + f"\n  {last}\n}}"


def on_host(count: int, x: np.ndarray) -> np.ndarray:
    """The result of ``program(count)``."""
    for i in range(count):
        _, function, _, operand = STEPS[i % len(STEPS)]
        x = function(x, np.float32(operand))
    return x


def _calls(record: Recorder, scale: Scale) -> None:
    """The host's time of a call of one kernel, beside one operator of torch."""
    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    contestants: dict[str, Contestant] = {}
    for n in ARGUMENTS:
        contestants[f"{OURS}, arguments: {n}"] = one = placed(one_kernel(n), [x] * n).contestant()
        np.testing.assert_allclose(one.run().numpy(), np.maximum(n * x, 0), rtol=1e-6)
    eager = "torch eager, one operator"
    with record.task("a call: host", eager, "ns"):
        torch, held = rivals.torch(), rivals.tensor(x)
        # nothing here has gradients; to enter inference mode for one operator would cost as much as the operator
        contestants[eager] = Contestant(lambda: torch.relu(held), torch.cuda.synchronize)
    for who, samples in contest(contestants, scale.rounds, calls=scale.chain).items():
        goal = CALL if who == f"{OURS}, arguments: {ARGUMENTS[0]}" else None
        record.figure("a call: host", who, "ns", samples.host, goal)


def one_kernel(arguments: int) -> str:
    """The rectified sum of the arguments."""
    params = ", ".join(f"%x{i}: Tensor[(?n), float32]" for i in range(arguments))
    return f"def @main({params}) {{ nn.relu({' + '.join(f'%x{i}' for i in range(arguments))}) }}"


def _agreed(got: np.ndarray, count: int, x: np.ndarray) -> None:
    np.testing.assert_allclose(got, on_host(count, x), rtol=1e-5)


def _chain_of(functions: list[tuple[Any, Any]]) -> Any:
    def run(value: Any) -> Any:
        for function, operand in functions:
            value = function(value, operand)
        return value

    return run


def _torch_functions(count: int) -> list[tuple[Any, Any]]:
    torch = rivals.torch()
    # a tensor as second operand, as maximum needs one; the others are fastest with a number
    zero = torch.zeros((), device="cuda")
    steps = (torch.add, 0.25), (torch.mul, 0.8), (torch.maximum, zero)
    return [steps[i % len(steps)] for i in range(count)]


def _torch(count: int, x: np.ndarray) -> Contestant:
    one = rivals.torch_contestant(_chain_of(_torch_functions(count)), rivals.tensor(x))
    _agreed(one.run().cpu().numpy(), count, x)
    return one


def _torch_graph(count: int, x: np.ndarray) -> Contestant:
    one, result = rivals.replayed(_chain_of(_torch_functions(count)), rivals.tensor(x))
    _agreed(result.cpu().numpy(), count, x)
    return one


def _cupy(count: int, x: np.ndarray) -> Contestant:
    cupy = rivals.cupy()
    steps = (cupy.add, np.float32(0.25)), (cupy.multiply, np.float32(0.8)), (cupy.maximum, np.float32(0))
    chain, held = _chain_of([steps[i % len(steps)] for i in range(count)]), cupy.asarray(x)
    _agreed(cupy.asnumpy(chain(held)), count, x)
    return Contestant(lambda: chain(held), cupy.cuda.get_current_stream().synchronize)


def _onnxruntime(count: int, x: np.ndarray) -> Contestant:
    """With its arguments and results bound to the GPU, and without its own fusion."""
    ort = rivals.onnxruntime()
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise NotRun("onnx, which makes its models, is not installed") from error

    scalars = [helper.make_tensor(f"c{k}", TensorProto.FLOAT, [], [step[3]]) for k, step in enumerate(STEPS)]
    names = ["x", *(f"v{i}" for i in range(count))]
    nodes = [helper.make_node(STEPS[i % len(STEPS)][2], [names[i], f"c{i % len(STEPS)}"], [names[i + 1]]) for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], scalars)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CUDAExecutionProvider"])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        raise NotRun("onnxruntime has a CUDA provider, but cannot load it")
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0))
    binding.bind_output(names[-1], "cuda")
    session.run_with_iobinding(binding)
    _agreed(binding.copy_outputs_to_cpu()[0], count, x)
    return Contestant(lambda: session.run_with_iobinding(binding), binding.synchronize_outputs)
