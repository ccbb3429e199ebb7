"""The file of an executable: a round trip, and the refusal of all other files."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.core.tensor_types import DTYPES, FuncType, TensorType, TupleType, Type, numpy_dtype
from relayvm.shape_funcs.symbolic.dim import ANY, fresh, sym
from relayvm.vm.api.executable import Executable, from_bytes
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode.executable_file import FORMAT_VERSION, MAGIC, MAPPED_BYTES, to_bytes
from relayvm.vm.bytecode.types_json import type_from_json, type_to_json
from relayvm.vm.bytecode.verify import verify
from relayvm.vm.diagnostics.source import ConfigError, ExecutableFormatError, FileError, RelayError, VMError

from ... import tiers
from .executables import all_executables, by_hand, compiled, executable, function, with_constants

pytestmark = pytest.mark.many

HEAD, CHECKSUM = 40, 64
NAMES = sorted(all_executables())


def parts(data: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """Header, code and constants of a file."""
    _, _, n_header, n_code, _ = struct.unpack("<8s4Q", data[:HEAD])
    header = json.loads(data[HEAD : HEAD + n_header])
    end = HEAD + n_header + n_code
    return header, data[HEAD + n_header : end], data[end + -end % 64 : -CHECKSUM]


def sealed(header: Any, code: bytes, constants: bytes, version: int = FORMAT_VERSION) -> bytes:
    """A file with these contents and a correct checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return closed(struct.pack("<8s4Q", MAGIC, version, len(text), len(code), len(constants)) + text + code, constants)


def closed(before: bytes, constants: bytes) -> bytes:
    """The file with correct checksums for what is before the constants, and for the constants."""
    digest = hashlib.sha256(constants).digest()
    before += bytes(-len(before) % 64)
    return before + constants + digest + hashlib.sha256(before + digest).digest()


def accepted(data: bytes) -> bool:
    """Load and verify; False if the file is refused with the expected error.  An accepted file can be shown and saved."""
    try:
        exe = from_bytes(data)
        verify(exe)
    except ExecutableFormatError as error:
        assert str(error).startswith("error: ")
        return False
    assert exe.disassembly
    assert to_bytes(from_bytes(to_bytes(exe))) == to_bytes(exe)
    return True


# ---- what is saved comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_comes_back(name: str, tmp_path: Path) -> None:
    exe = all_executables()[name]
    exe.save(tmp_path / "a.rvm")
    loaded = Executable.load(tmp_path / "a.rvm")
    loaded.save(tmp_path / "b.rvm")
    assert (tmp_path / "a.rvm").read_bytes() == (tmp_path / "b.rvm").read_bytes() == to_bytes(exe)
    assert loaded.disassembly == exe.disassembly
    assert [(f.name, f.n_registers, f.spans, f.notes) for f in loaded.functions] == [
        (f.name, f.n_registers, f.spans, f.notes) for f in exe.functions
    ]
    assert [p.group.key() for p in loaded.packed] == [p.group.key() for p in exe.packed]
    assert (loaded.shape_funcs, loaded.sources, loaded.reasons) == (exe.shape_funcs, exe.sources, exe.reasons)
    assert (loaded.target, loaded.config, loaded.stats) == (exe.target, exe.config, exe.stats)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.rvm", "b.rvm"]


@pytest.mark.parametrize("name", NAMES)
def test_constants_come_back_bit_by_bit(name: str) -> None:
    exe = all_executables()[name]
    for mine, theirs in zip(exe.constants, from_bytes(to_bytes(exe)).constants, strict=True):
        assert (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
        assert not theirs.flags.writeable
        assert theirs.flags.c_contiguous and theirs.flags.aligned


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=4).map(tuple), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_any_constant_comes_back(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 256, 8 * 3**4, np.uint8)
    data = (bits < 128)[: int(np.prod(shape))] if dtype == "bool" else bits.view(numpy_dtype(dtype))[: int(np.prod(shape))]
    exe = Executable(
        functions=(), constants=(data.reshape(shape),), packed=(), shape_funcs=(), shape_func_names=(), reasons=(), target="cpu"
    )
    (back,) = from_bytes(to_bytes(exe)).constants
    assert (back.dtype.name, back.shape, back.tobytes()) == (dtype, shape, data.tobytes())


def test_the_same_program_compiled_twice_gives_the_same_bytes() -> None:
    assert to_bytes(compiled.__wrapped__("closure")) == to_bytes(compiled.__wrapped__("closure"))


def test_inputs_are_those_of_main() -> None:
    loaded = from_bytes(to_bytes(compiled("recursion")))
    assert [(name, str(ty)) for name, ty in loaded.inputs] == [("n", "int64"), ("x", "Tensor[(?, 4), float32]")]
    with pytest.raises(ConfigError, match="has no @main"):
        _ = executable(function([], name="other")).inputs


def test_primitive_ops_are_the_kernels_by_number() -> None:
    assert compiled("upper_bound").primitive_ops == ("argwhere", "fused_exp_add")


def test_a_mistake_in_a_run_of_a_loaded_file_shows_its_place(tmp_path: Path) -> None:
    compiled("data_dependent", "cpu").save(tmp_path / "a.rvm")
    texts = []
    for exe in (compiled("data_dependent", "cpu"), Executable.load(tmp_path / "a.rvm")):
        vm = VirtualMachine(exe)
        x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
        np.testing.assert_allclose(vm.run(x, np.array([6, 2])).numpy(), np.exp(x).reshape(6, 2), rtol=1e-6)
        with pytest.raises(VMError, match=r"cannot view 12 elements as \(5, 2\)") as caught:
            vm.run(x, np.array([5, 2]))
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "^^^^" in texts[0]


# ---- types ---------------------------------------------------------------------------------------------------------

DIMS = st.one_of(
    st.integers(0, 2**63 - 1), st.sampled_from("nmk").map(sym), st.builds(fresh), st.just(ANY), st.just(sym("n") * 2 + 1)
)
TENSORS = st.builds(lambda d, t: TensorType.of(d, t), st.lists(DIMS, max_size=8), st.sampled_from(DTYPES))
TYPES = st.recursive(
    TENSORS,
    lambda t: st.one_of(
        st.lists(t, max_size=3).map(lambda x: TupleType(tuple(x))),
        st.builds(lambda p, r: FuncType(tuple(p), r), st.lists(t, max_size=2), t),
    ),
    max_leaves=6,
)


@given(TYPES)
def test_a_type_comes_back_as_it_prints(ty: Type) -> None:
    data = json.loads(json.dumps(type_to_json(ty)))
    assert str(type_from_json(data)) == str(ty)
    assert type_to_json(type_from_json(data)) == data


def test_equal_names_stay_equal_and_other_dims_do_not() -> None:
    ty = type_from_json(["tensor", "bool", ["?n", "?", "?n", "?"]])
    assert isinstance(ty, TensorType)
    assert ty.shape[0] is ty.shape[2]
    assert len(set(ty.shape)) == 3


NO_TYPES: list[Any] = [
    *(None, [], {}, "tensor", ["tensor"], ["tensor", "bool", [], 1], ["tensor", "bool", [1] * 9]),
    *(["tensor", "float8", []], ["tensor", 1, []], ["tuple", {}], ["tuple", ["bool"]], ["func", []], ["func", [], []]),
    *(["tensor", "bool", [d]] for d in (-1, True, 1.0, 2**63, "n", "?.", "?.1", "? n", "", None)),
]


@pytest.mark.parametrize("data", NO_TYPES, ids=repr)
def test_what_is_no_type_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"is no |unknown dtype|dimensions"):
        type_from_json(data)


# ---- what is refused, by name --------------------------------------------------------------------------------------


def set_to(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: Any) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = value

    return change


def good() -> bytes:
    return to_bytes(with_constants())


def with_value(*path: Any, value: Any) -> bytes:
    """A valid file except for one value of its header, with a correct checksum."""
    header, code, constants = parts(good())
    set_to(*path, value=value)(header)
    return sealed(header, code, constants)


def flipped_bool() -> bytes:
    header, code, constants = parts(good())
    at = next(i for i, (dtype, _) in enumerate(header["constants"]) if dtype == "bool")
    sizes = [np.dtype(dtype).itemsize * int(np.prod(shape)) for dtype, shape in header["constants"]]
    begin = sum(n + -n % 64 for n in sizes[:at])
    return sealed(header, code, constants[:begin] + b"\2" + constants[begin + 1 :])


def nested_type(depth: int) -> list[Any]:
    """A deeply nested tuple type in its JSON form."""
    ty: list[Any] = ["tuple", []]
    for _ in range(depth - 1):
        ty = ["tuple", [ty]]
    return ty


NODE = ("packed", 0, "group", "nodes", 0)

REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "not an executable: the file is empty"),
    "text": (lambda: b'#[version = "0.0.5"]\ndef @main() { 1 }', r"not an executable: .* begin as one, but with b'#\[versio'"),
    "short text": (lambda: b"\n", r"not an executable: .* but with b'\\n'"),
    "line ends changed": (lambda: good().replace(b"\r\n", b"\n"), "not an executable"),
    "newer": (lambda: sealed(*parts(good()), version=99), "version 99, made by a newer relayvm; this one reads version 11"),
    "older": (lambda: sealed(*parts(good()), version=0), "version 0, made by an older relayvm; this one reads version 11"),
    "only the magic": (lambda: good()[:8], "truncated: it ends after 8 bytes, within its first 40"),
    "a byte less": (lambda: good()[:-1], r"truncated: it has \d+ bytes of \d+"),
    "a byte more": (lambda: good() + b"\0", "damaged: 1 bytes follow its end"),
    "sizes beyond all memory": (lambda: good()[:16] + b"\xff" * 24 + good()[40:], "truncated: it has"),
    "checksum": (lambda: good()[:-1] + bytes([good()[-1] ^ 1]), "checksum does not match"),
    "no JSON": (lambda: sealed(b"{", b"", b""), "damaged: its header is no JSON"),
    "no UTF-8": (lambda: sealed(b'"\xff"', b"", b""), "damaged: its header is no JSON"),
    "half a character": (lambda: sealed(b'"\\ud800"', b"", b""), "damaged: its header is no JSON"),
    "a huge number": (lambda: sealed(b"9" * 5000, b"", b""), "damaged: its header is no JSON"),
    "deep JSON": (lambda: sealed(b"[" * 10**5 + b"]" * 10**5, b"", b""), "nested too deeply"),
    "other JSON": (lambda: sealed([], b"", b""), "the header is not a JSON object"),
    "nothing in it": (lambda: sealed({}, b"", b""), "the header has no 'shape_funcs'"),
    "unknown dtype": (lambda: with_value("constants", 0, 0, value="float8"), r"constants\[0\]: unknown dtype 'float8'; there"),
    "constant too long": (lambda: with_value("constants", 0, 1, value=[2**62, 2]), r"constants\[0\]: ends at byte \d+ of"),
    "constant too short": (lambda: with_value("constants", 0, 1, value=[0]), r"the constants have \d+ bytes, but there are"),
    "constant of rank 9": (lambda: with_value("constants", 0, 1, value=[1] * 9), "9 dimensions; at most 8"),
    "negative size": (lambda: with_value("constants", 0, 1, value=[-1]), "out of range: -1"),
    "bool of 2": (flipped_bool, "a bool is neither 0 nor 1"),
    "code too long": (lambda: with_value("functions", 0, "words", value=10**9), "the functions have 8000000000 bytes of code"),
    "unknown operator": (lambda: with_value(*NODE, "op", value="exq"), r"packed\[0\]: not a primitive: .*'exq'"),
    "bad attribute": (lambda: with_value(*NODE, "attrs", value={"axes": 1}), r"packed\[0\]: not a primitive: .*axes"),
    "type": (lambda: with_value("functions", 0, "result", value=["x"]), r"the result of functions\[0\]: .* is no type"),
    "deep type": (lambda: with_value("functions", 0, "result", value=nested_type(65)), "a tuple is nested 65 deep; at most 64"),
    "deeper type": (lambda: with_value("functions", 0, "result", value=nested_type(300)), "nested"),
    "a size that is none": (lambda: with_value("sizes", 0, value="?n"), r"sizes\[0\]: '\?n' is no size"),
    "a note without a reason": (
        lambda: with_value("functions", 0, "notes", 0, value=[0, "", 0, 99]),
        r"functions\[0\].notes\[0\] refers to size 0 of \d+ and reason 99 of \d+",
    ),
    "a note on nothing": (
        lambda: with_value("functions", 0, "notes", 0, value=[1, "", 0, 0]),
        "the note on memory of pc 1 is out of order, or of no instruction that makes one",
    ),
    "a note on two lines": (
        lambda: with_value("functions", 0, "notes", 0, 1, value="a\nb"),
        r"the note on memory of pc \d+ cannot be printed: 'a\\nb'",
    ),
    "a default of another length": (
        lambda: with_value("functions", 0, "defaults", value=[["float32", [2], "00000000"]]),
        r"functions\[0\].defaults\[0\] has 4 bytes",
    ),
    "a default that is no text of bytes": (
        lambda: with_value("functions", 0, "defaults", value=[["float32", [], "0x"]]),
        r"functions\[0\].defaults\[0\]: non-hexadecimal number",
    ),
    "a default of an unknown dtype": (
        lambda: with_value("functions", 0, "defaults", value=[["float8", [1], ""]]),
        r"functions\[0\].defaults\[0\] has the dtype 'float8' and the shape \(1,\)",
    ),
    "a name that is no text": (
        lambda: with_value("functions", 0, "outputs", value=[1]),
        r"functions\[0\].outputs\[0\] is '1', not a str",
    ),
    "wrong target": (lambda: with_value("target", value="tpu"), "its target is 'tpu'; devices: cpu, sim"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case: str, tmp_path: Path) -> None:
    data, message = REFUSED[case][0](), REFUSED[case][1]
    path = tmp_path / "x.rvm"
    path.write_bytes(data)
    with pytest.raises(ExecutableFormatError, match=message) as caught:
        Executable.load(path)
    assert caught.value.diagnostics[0].message.startswith(f"{path}: ")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=re.escape(f"cannot read {tmp_path / 'no'}: No such file")):
        Executable.load(tmp_path / "no")
    with pytest.raises(FileError, match=r"cannot read .*directory"):
        Executable.load(tmp_path)


# ---- writing -------------------------------------------------------------------------------------------------------


def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.rvm"
    by_hand().save(path)
    before = path.read_bytes()

    def full(part: str, path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match=re.escape(f"cannot write {path}: No space left on device")):
        with_constants().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.rvm"]


def test_where_nothing_can_be_written_save_says_so(tmp_path: Path) -> None:
    with pytest.raises(RelayError, match=r"cannot write .*: No such file or directory"):
        by_hand().save(tmp_path / "no" / "a.rvm")
    with pytest.raises(RelayError, match="it is not a regular file"):
        by_hand().save(tmp_path)


# ---- damage ---------------------------------------------------------------------------------------------------------


def test_a_file_with_any_byte_altered_is_refused() -> None:
    data, rng = good(), random.Random(0)
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= rng.randrange(1, 256)
        assert not accepted(bytes(altered)), at


def test_a_file_cut_anywhere_is_refused() -> None:
    data = good()
    for n in range(len(data)):
        with pytest.raises(ExecutableFormatError, match="truncated" if n else "empty"):
            from_bytes(data[:n])


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all parts of a JSON value."""
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from leaves(value, (*path, key))


WRONG = (0, -1, 1, 2**31, 2**64, 10**30, 1.5, float("nan"), "", "x", "?n", "{}{}", None, True, [], [0], [[]], {}, {"": 0})


@pytest.mark.extensive(name=("constants",))
@pytest.mark.parametrize("name", ["by hand", "constants", "data_dependent on sim", "upper_bound on sim"])
def test_a_header_altered_under_a_right_checksum_is_refused_or_still_verifies(name: str) -> None:
    data = to_bytes(all_executables()[name])
    header, code, constants = parts(data)
    text, verdicts = json.dumps(header), {True: 0, False: 0}
    for path in leaves(header):
        old = header
        for key in path:
            old = old[key]
        near = (old + 1, old - 1) if type(old) is int else ()
        for value in (*near, *tiers.some(WRONG, str(path), 2)):
            altered = json.loads(text)
            set_to(*path, value=value)(altered)
            verdicts[accepted(sealed(altered, code, constants))] += 1
        altered = json.loads(text)
        parent = altered
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        verdicts[accepted(sealed(altered, code, constants))] += 1
    assert min(verdicts.values()) > 0, verdicts


@given(st.sampled_from(NAMES), st.data())
@settings(max_examples=150)
def test_words_altered_under_a_right_checksum_are_refused_or_still_verify(name: str, data: st.DataObject) -> None:
    header, code, constants = parts(to_bytes(all_executables()[name]))
    words = np.frombuffer(code, np.int64).copy()
    at = data.draw(st.integers(0, len(words) - 1))
    for value in (0, -1, 2**62, -(2**63), words[at] + 1, words[at] - 1):
        words[at] = value
        accepted(sealed(header, words.tobytes(), constants))


@given(st.sampled_from(NAMES), st.data())
@settings(max_examples=100)
def test_sizes_altered_under_a_right_checksum_are_refused(name: str, data: st.DataObject) -> None:
    whole = to_bytes(all_executables()[name])
    sizes = list(struct.unpack("<3Q", whole[16:40]))
    a, b = data.draw(st.permutations(range(3)))[:2]
    moved = data.draw(st.integers(1, sizes[a])) if sizes[a] else 0
    sizes[a], sizes[b] = sizes[a] - moved, sizes[b] + moved
    body = whole[:16] + struct.pack("<3Q", *sizes) + whole[40:-CHECKSUM]
    end = HEAD + sizes[0] + sizes[1]
    if moved:
        assert not accepted(closed(body[:end], body[end + -end % 64 :]))


def test_large_constants_are_mapped_and_not_read(tmp_path: Path) -> None:
    large = np.zeros(MAPPED_BYTES // 4 + 1, np.float32)
    small = np.arange(3, dtype=np.int64)
    exe = Executable(
        functions=(), constants=(small, large), packed=(), shape_funcs=(), shape_func_names=(), reasons=(), target="cpu"
    )
    path = tmp_path / "large.rvm"
    exe.save(path)
    assert path.read_bytes() == to_bytes(exe)
    mapped = Executable.load(path)
    assert all(isinstance(_owner(c), mmap.mmap) and c.ctypes.data % 64 == 0 for c in mapped.constants)
    assert not any(isinstance(_owner(c), mmap.mmap) for c in from_bytes(to_bytes(exe)).constants)
    assert mapped.constants[0].tolist() == [0, 1, 2] and to_bytes(mapped) == to_bytes(exe)
    with path.open("r+b") as file:
        file.seek(-CHECKSUM - 1, 2)
        file.write(b"\1")
    assert Executable.load(path).constants[1][-1] != 0  # the checksum of mapped constants is not compared
    with pytest.raises(ExecutableFormatError, match="its checksum does not match"):
        from_bytes(path.read_bytes())
    with path.open("r+b") as file:
        file.seek(HEAD + 3)
        file.write(b"!")
    with pytest.raises(ExecutableFormatError, match="its checksum does not match"):
        Executable.load(path)


def _owner(array: Any) -> Any:
    """The object whose memory an array shows."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array
