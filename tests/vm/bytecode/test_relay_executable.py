"""Relay's view of an executable: texts, functions, bytes and library, late-bound constants."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.api.executable import KernelLibrary
from relayvm.vm.bytecode.executable import LateBound
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.loading.executable_fingerprint import program_hash

from ...devices import DEVICES

W = np.arange(12, dtype="float32").reshape(3, 4)
MASK = np.array([[True, False, True]])
A = np.ones((2, 4), "float32")
EXPECTED = np.where(MASK, A @ W.T, 0).tolist()


def executable(target: str = "cpu") -> relay.Executable:
    """A program with a constant of 48 bytes, ``const_0``, and ``const_1`` of 3."""
    x = relay.var("x", shape=(relay.Any(), 4))
    product = relay.nn.dense(x, relay.const(W))
    body = relay.where(relay.const(MASK), product, relay.zeros_like(product))
    exe = relay.compile(relay.Function([x], body), target)
    assert sorted(c.nbytes for c in exe.constants) == [3, 48]
    return exe


def name_of(exe: relay.Executable, dtype: str) -> str:
    return next(f"const_{i}" for i, c in enumerate(exe.constants) if c.dtype == dtype)


def result(exe: relay.Executable) -> object:
    return relay.VirtualMachine(exe).run(A).tolist()


# ---- texts, functions, bytes -----------------------------------------------------------------------------------------


def test_texts_are_parts_of_the_disassembly() -> None:
    exe = executable()
    assert exe.bytecode.startswith("@main(%x: Tensor[(?, 4), float32])") and exe.bytecode.rstrip("\n") in exe.disassembly
    assert "InvokePacked" in exe.bytecode and "packed[0] " not in exe.bytecode.replace("packed[0] n_", "")
    assert exe.primitives in exe.disassembly and exe.primitives.count("\n") == len(exe.primitive_ops) == exe.stats["kernels"]
    assert [line.split("(")[0].split()[1] for line in exe.primitives.splitlines()] == list(exe.primitive_ops)


def test_functions() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: float32, %y: int32) { @f(%x) }\ndef @f(%z: float32) { %z }\ndef @g() { 1f }'
    exe = relay.compile(text, opt_level=0)
    assert exe.globals == ["main", "f", "g"]
    assert [exe.get_function_params(name) for name in exe.globals] == [["x", "y"], ["z"], []]
    assert [exe.get_function_arity(name) for name in exe.globals] == [2, 1, 0]
    with pytest.raises(KeyError, match="the executable has no function 'h'") as caught:
        exe.get_function_params("h")
    assert caught.value.diagnostics[0].help == "its functions: @main, @f, @g"  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
def test_save_without_a_path_and_load_exec(target: str, tmp_path: Path) -> None:
    exe = executable(target)
    code, lib = exe.save()
    assert exe.save(tmp_path / "model.rvm") is None and (tmp_path / "model.rvm").read_bytes() == code  # type: ignore[func-returns-value]
    assert isinstance(lib, KernelLibrary) and code == to_bytes(exe)
    for given in (code, bytearray(code)):
        for library in (None, lib):
            assert result(relay.Executable.load_exec(given, library)) == EXPECTED


def test_an_exported_library_has_the_kernels(tmp_path: Path) -> None:
    exe = executable()
    assert result(exe) == EXPECTED
    code, lib = exe.save()
    lib.export_library(tmp_path / "lib.so")
    loaded = relay.vm.Executable.load_exec(code, str(tmp_path / "lib.so"))
    assert result(loaded) == EXPECTED
    with pytest.raises(relay.FileError, match="cannot read"):
        relay.Executable.load_exec(code, tmp_path / "none")


def test_wrong_bytes() -> None:
    with pytest.raises(relay.ExecutableFormatError, match="load_exec: not an executable: the file is empty"):
        relay.Executable.load_exec(b"")
    with pytest.raises(relay.ArgumentError, match="load_exec: the bytecode must be bytes, not the str 'model'") as caught:
        relay.Executable.load_exec("model")  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].help == "Executable.load(path) reads a file"


# ---- late-bound constants --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
def test_constants_leave_the_executable_and_come_back(target: str, tmp_path: Path) -> None:
    exe, file = executable(target), tmp_path / "weights"
    before, whole = program_hash(exe), to_bytes(exe)
    earlier = relay.VirtualMachine(exe)
    exe.move_late_bound_consts(file, byte_limit=48)
    weight = name_of(exe, "float32")
    saved = to_bytes(exe)
    assert W.tobytes() in whole and W.tobytes() not in saved and len(saved) < len(whole) + 100
    assert {n: a.tolist() for n, a in relay.load_param_dict(file.read_bytes()).items()} == {weight: W.tolist()}
    assert f"float32[3, 4], late-bound as {weight}" in exe.disassembly and exe.stats["constant_bytes"] == 3
    assert program_hash(exe) == before and "3 bytes of constants" in repr(exe)
    loaded = relay.Executable.load_exec(saved)
    assert to_bytes(loaded) == saved and to_bytes(pickle.loads(pickle.dumps(exe))) == saved
    for each in (exe, loaded):
        with pytest.raises(relay.InputError) as caught:
            relay.VirtualMachine(each)
        assert caught.value.diagnostics[0].message == (
            f"the executable cannot run without its late-bound constants: {weight} (Tensor[(3, 4), float32])"
        )
        assert caught.value.diagnostics[0].help == (
            "executable.load_late_bound_consts(path) takes back the file of move_late_bound_consts"
        )
        each.load_late_bound_consts(file)
        assert result(each) == EXPECTED and to_bytes(each) == whole
        assert not any(c.flags.writeable for c in each.constants)
    assert earlier.run(A).tolist() == EXPECTED


def test_constants_as_a_dict() -> None:
    exe = executable()
    taken = exe.get_late_bound_consts(0)
    assert {name: type(a.numpy()) for name, a in taken.items()} == {"const_0": np.ndarray, "const_1": np.ndarray}
    assert all(isinstance(c, LateBound) for c in exe.constants) and exe.get_late_bound_consts(0) == {}
    exe.load_late_bound_consts_from_map({"const_1": taken["const_1"], "unused": 1})
    with pytest.raises(relay.InputError, match=r"without its late-bound constants: const_0 \("):
        relay.VirtualMachine(exe)
    exe.load_late_bound_consts_from_map(taken)
    assert result(exe) == EXPECTED
    assert exe.get_late_bound_consts(49) == {} and result(exe) == EXPECTED


def test_explanations_and_copies_of_an_executable_without_its_constants() -> None:
    exe = executable("sim")
    before = str(exe.explain())
    exe.get_late_bound_consts(0)
    after = str(exe.explain())
    assert before == after and copy.copy(exe) is exe


def moved() -> tuple[relay.Executable, str, str]:
    exe = executable()
    exe.get_late_bound_consts(0)
    return exe, name_of(exe, "float32"), name_of(exe, "bool")


def test_other_elements_are_refused(tmp_path: Path) -> None:
    exe, weight, mask = moved()
    load = exe.load_late_bound_consts_from_map
    who = "load_late_bound_consts_from_map"
    help = "load_late_bound_consts(path) takes back the file of move_late_bound_consts"
    other = "to run other weights, compile the program with them, or make them parameters"
    type_text = f"{who}: {weight} is Tensor[(4, 3), float32], the constant that was taken out is Tensor[(3, 4), float32]"
    both = ", ".join(f"{c.name} ({relay.TensorType(c.shape, c.dtype.name)})" for c in exe.constants if isinstance(c, LateBound))
    wrong_bool = MASK.view(np.uint8) + np.uint8(1)
    for values, message, wanted in (
        ({weight: W.T}, type_text, help),
        ({weight: W + 1}, f"{who}: {weight} has other elements than the constant that was taken out", other),
        ({mask: wrong_bool.view(np.bool_)}, f"{who}: {mask}: a bool is neither 0 nor 1", help),
        ({"const_9": W}, f"{who}: no late-bound constant is there: {both}", help),
        ({}, f"{who}: no late-bound constant is there: {both}", help),
    ):
        with pytest.raises(relay.InputError) as caught:
            load(values)
        assert (caught.value.diagnostics[0].message, caught.value.diagnostics[0].help) == (message, wanted)
    with pytest.raises(relay.InputError):
        load({mask: MASK, weight: W + 1})
    assert all(isinstance(c, LateBound) for c in exe.constants)  # all or none


Use = Callable[[relay.Executable, Path], object]
WRONG: tuple[tuple[Use, str], ...] = (
    (lambda exe, d: exe.load_late_bound_consts(d / "none"), "cannot read {d}/none: No such file or directory"),
    (lambda exe, d: exe.load_late_bound_consts(d / "text"),
     "{d}/text: the bytes hold no arrays by name: File is not a zip file"),
    (lambda exe, d: exe.move_late_bound_consts(d / "no folder" / "f", 0),
     "cannot write {d}/no folder/f: No such file or directory"),
    (lambda exe, d: exe.move_late_bound_consts(d / "f", -1),
     "byte_limit must be a whole number of at least 0, not the int -1"),
    (lambda exe, d: exe.move_late_bound_consts(3, 0), "move_late_bound_consts: the file must be a path, not the int 3"),  # type: ignore[arg-type]
    (lambda exe, d: exe.get_late_bound_consts("all"), "byte_limit must be a whole number of at least 0, not the str 'all'"),  # type: ignore[arg-type]
    (lambda exe, d: exe.load_late_bound_consts_from_map([1]),  # type: ignore[arg-type]
     "load_late_bound_consts_from_map must be a dict with names as keys, not the list [1]"),
)  # fmt: skip


@pytest.mark.parametrize(("use", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_uses_leave_the_executable_unchanged(use: Use, message: str, tmp_path: Path) -> None:
    exe = executable()
    (tmp_path / "text").write_text("no arrays")
    before = to_bytes(exe)
    with pytest.raises(relay.RelayError) as caught:
        use(exe, tmp_path)
    assert caught.value.diagnostics[0].message == message.format(d=tmp_path)
    assert to_bytes(exe) == before


def test_a_damaged_description_of_a_late_bound_constant_is_refused() -> None:
    from .test_file import parts, sealed

    exe, weight, _ = moved()
    header, code, constants = parts(to_bytes(exe))
    number = next(i for i, row in enumerate(header["constants"]) if row[2] == weight)
    for column, value, message in (
        (0, "float33", "unknown dtype 'float33'"),
        (1, [-1, 4], "out of range: -1"),
        (1, [1] * 99, "has 99 dimensions"),
        (2, "const\n0", r"const\[\d\] cannot be printed"),
        (2, None, "is 'None', not a str"),
        (3, "0" * 63, "is no SHA-256"),
        (3, "G" * 64, "is no SHA-256"),
    ):
        changed = json.loads(json.dumps(header))
        changed["constants"][number][column] = value
        with pytest.raises(relay.ExecutableFormatError, match=message):
            relay.Executable.load_exec(sealed(changed, code, constants))
