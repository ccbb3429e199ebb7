"""compile: its entry points, parameters bound to constants, stages, and errors."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from relayvm.compiler.compile import compile
from relayvm.compiler.ir.expr import Call, Constant, Function, IRModule, Let, Var, replace
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowered import as_module, bind_params
from relayvm.compiler.lowering.pipeline import passes, stages
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.diagnostics.source import ConfigError, InputError, TypeCheckError
from relayvm.vm.options import CHECK_VARIABLE

EXP = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) { exp(%x) }\n'
ADD = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32], %w: Tensor[(?n), float32]) { add(%x, %w) }\n'


def test_a_text_a_path_a_module_and_a_function_compile_to_the_same(tmp_path: Path) -> None:
    path = tmp_path / "exp.relay"
    path.write_text(EXP)
    module = parse(EXP)
    codes = [compile(given).functions[0].code.tolist() for given in (EXP, path, module, module["main"])]
    assert codes.count(codes[0]) == len(codes) == 4


def test_the_configuration_is_recorded() -> None:
    exe = compile(EXP, "sim", data_dependence="op", fuse="off", opt_level="1")
    assert exe.target == "sim"
    assert Config.of(**exe.config) == Config(data_dependence="op", fuse=False, opt_level=1)


def test_params_become_constants() -> None:
    w = np.array([1, 2, 3], np.float32)
    exe = compile(ADD, params={"w": w})
    assert [name for name, _ in exe.functions[0].params] == ["x"]
    assert any(c.dtype == w.dtype and np.array_equal(c, w) for c in exe.constants)


def test_params_are_copied() -> None:
    w = np.array([1, 2, 3], np.float32)
    exe = compile(ADD, params={"w": w})
    w[:] = 0
    assert [c[2] for c in exe.constants if c.dtype == np.float32] == [3.0]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v": 1.0}, "@main has no parameter %v\nhelp: its parameters: %x, %w"),
        ({"w": np.zeros(3)}, "params: %w is Tensor[(?n), float32], but the value is Tensor[(3), float64]"),
        ({"w": np.zeros((3, 1), np.float32)}, "params: %w is Tensor[(?n), float32], but the value is Tensor[(3, 1), float32]"),
        ({"w": np.array(["a"])}, "params: %w has the dtype <U1\nhelp: valid dtypes: float32, float64, int8"),
    ],
)
def test_params_that_do_not_fit(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        bind_params(parse(ADD), params)
    assert str(error.value).startswith(f"error: {message}")


def test_params_need_a_main() -> None:
    with pytest.raises(InputError, match="the module has no @main"):
        bind_params(IRModule({"f": parse(EXP)["main"]}), {"x": 1})


def test_an_unknown_target_is_an_error_that_names_the_valid_ones() -> None:
    with pytest.raises(ConfigError) as error:
        compile(EXP, "sin")
    assert str(error.value) == "error: unknown target 'sin'; did you mean sim?\nhelp: valid targets: cpu, sim, cuda"


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match="fusion"):
        compile(EXP, fusion="on")


def test_a_module_without_functions_is_an_error() -> None:
    with pytest.raises(TypeCheckError, match="the module has no function"):
        as_module(IRModule({}))
    with pytest.raises(TypeError, match="not the int 3"):
        as_module(3)  # type: ignore[arg-type]


def test_what_runs_at_which_level() -> None:
    names = [[name for name, _ in passes(Config(opt_level=level), LoweringContext("cpu"))] for level in range(4)]
    needed = ["to_a_normal_form", "monomorphize", "infer_type", "expand_composites", "lambda_lift", "place", "fuse_ops"]
    assert names[0] == [*needed, "select_implementations", "manifest_alloc", "manifest_lifetimes"]
    for fewer, more in itertools.pairwise(names):
        assert set(fewer) <= set(more)
    assert "fold_constant" in names[1] and "eliminate_common_subexpr" not in names[1]
    assert "dynamic_to_static" in names[2] and "simplify" in names[2]
    assert set(names[3]) - set(names[2]) == {"fold_scale_axis"}


def test_stages() -> None:
    shown = stages(parse(EXP), Config(), "cpu")
    assert list(shown) == ["parsed", "typed", "fused", "planned", "alloc"]
    assert shown["parsed"]["main"].ty is None and shown["typed"]["main"].ty is not None
    assert sum(f.is_primitive for f in shown["fused"].functions.values()) == 1


def test_a_tensor_larger_than_any_memory_is_an_error() -> None:
    size = 1 << 31
    with pytest.raises(TypeCheckError) as error:
        compile(f'#[version = "0.0.5"]\ndef @main() {{ exp(zeros(shape=[{size}, {size}], dtype="float32")) }}\n', fuse=False)
    assert "zeros: the known sizes of the result already make 18446744073709551616 bytes" in str(error.value)
    assert "^^^^" in str(error.value)


# ---- the check between passes ----------------------------------------------------------------------------------------


def _function(body_of_x) -> IRModule:
    x = Var("x", ty=TensorType.of((3,)))
    return IRModule({"main": Function((x,), body_of_x(x))})


def _exp(arg, ty=None) -> Call:
    return Call(get("exp"), (arg,), get("exp").attrs(), ty=ty)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_function(lambda x: _exp(x)), "Call where an atom must be, as a result"),
        (_function(lambda x: Let(y := Var("y"), _exp(_exp(x)), y)), "Call where an atom must be, in the value of %y"),
        (_function(lambda x: Var("y")), "%y is not bound, as a result"),
        (_function(lambda x: Let(y := Var("y"), _exp(y), y)), "%y is not bound, in the value of %y"),
        (_function(lambda x: Let(y := Var("y"), _exp(x), Let(y, _exp(x), y))), "%y is bound twice"),
        (_function(lambda x: Let(y := Var("y"), _exp(x), y)), "%y or its value has no type"),
    ],
)
def test_a_malformed_module_is_named(module: IRModule, message: str) -> None:
    with pytest.raises(AssertionError) as error:
        check(module, "some_pass", typed="no type" in message)
    assert str(error.value) == f"after some_pass, @main is not well-formed: {message}"


def test_a_broken_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(mod: IRModule, context: LoweringContext, *, enabled: bool) -> IRModule:
        return replace(mod, functions={"main": replace(mod["main"], body=Var("gone"))})

    monkeypatch.setenv(CHECK_VARIABLE, "1")
    monkeypatch.setattr("relayvm.compiler.lowering.pipeline.fuse_ops", breaks)
    with pytest.raises(AssertionError, match="after fuse_ops, @main is not well-formed: %gone is not bound"):
        compile(EXP)


def test_constants_are_copied_and_frozen() -> None:
    """An array that becomes a constant may be written afterwards, a view of one too; the program's constants may not."""
    for given in (np.ones(3, np.float32), np.ones((2, 3), np.float32)[0], np.ones((3, 2), np.float32)[:, 0]):
        constant = Constant(given)
        exe = compile(Function((), constant))
        given[:] = 7
        assert constant.data.tolist() == [1, 1, 1] == VirtualMachine(exe).run().numpy().tolist()
        for data in (constant.data, *exe.constants, *from_bytes(to_bytes(exe)).constants):
            with pytest.raises(ValueError, match="read-only"):
                data[...] = 1
    frozen = np.arange(3)
    frozen.setflags(write=False)
    assert np.shares_memory(Constant(frozen).data, frozen), "what nobody can write is not copied"
    read_only = np.arange(3)[:]
    read_only.setflags(write=False)
    assert Constant(read_only).data is not read_only, "its base can be written"


def test_a_result_that_is_a_constant_is_not_the_constant() -> None:
    machine = VirtualMachine(compile(Function((), Constant(np.ones(3, np.float32)))))
    result = machine.run().numpy()
    if result.flags.writeable:
        result[:] = 7
    assert machine.run().numpy().tolist() == [1, 1, 1]
