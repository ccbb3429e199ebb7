"""Object code mapped by this package and by LLVM's linker: the same results; what only a whole linker can do is LLVM's."""

from __future__ import annotations

import contextlib
import ctypes
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.native.cache import disk_cache, host_processor
from relayvm.ops.native.jit.native_compiler import ObjectCode, compile_object, has_near_constants
from relayvm.ops.native.linking import linker
from relayvm.ops.native.linking.memory_image import Unsupported, map_image
from relayvm.ops.native.linking.object_file import LinkError, ObjectFile, read_object
from relayvm.ops.native.memory import alloc, array_float64, free, native

from ..fresh import fresh_cache

pytestmark = pytest.mark.skipif(not has_near_constants(), reason="LLVM links all objects on this platform")


@native
def waves(address: int, count: int) -> int:
    """Constants in memory, a table of jumps or none, and calls of functions outside."""
    x, scratch = array_float64(address, count), array_float64(alloc(8 * count), count)
    for i in range(count):
        scratch[i] = math.sin(x[i]) * 0.3 + math.exp(x[i]) * 1.7
    for i in range(count):
        x[i] = scratch[i]
    free(scratch.ctypes.data)
    return 0


@pytest.fixture(scope="module")
def compiled() -> ObjectCode:
    return compile_object(waves, "int64(int64, int64)")


def address_of(name: str) -> int | None:
    return linker._address(name)


def run(address: int, x: np.ndarray) -> np.ndarray:
    values = x.copy()
    status = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(values.ctypes.data, values.size)
    assert status == 0
    return values


def test_both_linkers_give_the_same_results(compiled: ObjectCode) -> None:
    x = np.linspace(-3, 3, 1001)
    found = read_object(compiled.code)
    assert found.relocations and found.undefined_symbols()
    here = run(map_image(found, compiled.symbol, address_of), x)
    assert here.tobytes() == run(linker.load_by_llvm(compiled), x).tobytes()
    assert np.allclose(here, np.sin(x) * 0.3 + np.exp(x) * 1.7)


def test_no_page_can_be_written_and_executed(compiled: ObjectCode) -> None:
    address = map_image(read_object(compiled.code), compiled.symbol, address_of)
    lines = Path("/proc/self/maps").read_text().splitlines()
    rights = {
        line.split()[1][:3] for line in lines if int(line.split("-")[0], 16) <= address < int(line.split("-")[1].split()[0], 16)
    }
    assert rights == {"r-x"}
    before = [line for line in lines if int(line.split("-")[1].split()[0], 16) <= address][-1]
    assert before.split()[1][:3] == "r--", "constants and the table of addresses"


def test_an_unknown_symbol_is_reported(compiled: ObjectCode) -> None:
    with pytest.raises(Unsupported, match="the symbol exp is unknown"):
        map_image(read_object(compiled.code), compiled.symbol, lambda name: None if name == "exp" else 64)
    other = ObjectCode(compiled.symbol, compiled.code.replace(b"\0exp\0", b"\0qxp\0"))
    with pytest.raises(LinkError, match="object code needs the unknown symbol qxp"):
        linker.load(other)
    with pytest.raises(LinkError, match="object code has no function other"):
        linker.load(ObjectCode("other", compiled.code))


def counter(kind: str) -> ObjectCode:
    """A function that counts its calls in a variable."""
    import llvmlite.binding as llvm

    text = f"""
    @zero = internal global i64 0
    @calls = internal {kind} i64 5
    define i64 @count() {{
      %1 = load i64, i64* @calls
      %2 = add i64 %1, 1
      store i64 %2, i64* @calls
      %3 = load i64, i64* @zero
      %4 = add i64 %2, %3
      store i64 %3, i64* @zero
      ret i64 %4
    }}
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(codemodel="small", reloc="pic")
    return ObjectCode("count", target.emit_object(llvm.parse_assembly(text)))


def test_variables_are_on_pages_of_their_own() -> None:
    found = read_object(counter("global").code)
    for _ in range(2):  # each image has its own variable
        count = ctypes.CFUNCTYPE(ctypes.c_int64)(map_image(found, "count", address_of))
        assert [count(), count(), count()] == [6, 7, 8]


def test_what_needs_a_whole_linker_is_not_mapped() -> None:
    with pytest.raises(Unsupported, match="a section of kind 1 with flags 1027"):
        map_image(read_object(counter("thread_local global").code), "count", address_of)


@given(st.data())
def test_a_damaged_object_is_refused_or_stays_within_its_image(compiled: ObjectCode, data: st.DataObject) -> None:
    """Mapping, which is not running, ends in an error or in an image whose size the object states: it never writes elsewhere."""
    code = bytearray(compiled.code)
    fields = _numbers_of(read_object(compiled.code), code)
    for _ in range(data.draw(st.integers(1, 3))):
        at, form = data.draw(st.sampled_from(fields))
        limit = 2 ** (8 * struct.calcsize(form))
        number = data.draw(st.one_of(st.integers(0, 64), st.integers(limit - 64, limit - 1), st.integers(0, 2**21)))
        struct.pack_into(form, code, at, number % limit)
    with contextlib.suppress(LinkError, Unsupported):
        map_image(read_object(bytes(code)), compiled.symbol, address_of)


def _numbers_of(found: ObjectFile, code: bytes) -> list[tuple[int, str]]:
    """The places of the numbers of an object: its head, its sections, its symbols and its relocations."""
    (table,) = struct.unpack_from("<Q", code, 40)
    positions = [(18, "<H"), (40, "<Q"), (58, "<H"), (60, "<H")]
    for i in range(len(found.sections)):
        positions += [(table + 64 * i + at, "<I") for at in (4, 40, 44)] + [(table + 64 * i + at, "<Q") for at in (8, 24, 32, 48)]
    for section in found.sections:
        ends = range(section.offset, section.offset + section.size, 24)
        if section.kind == 2:
            positions += [place for at in ends for place in ((at, "<I"), (at + 6, "<H"), (at + 8, "<Q"))]
        if section.kind == 4:
            positions += [place for at in ends for place in ((at, "<Q"), (at + 8, "<I"), (at + 12, "<I"), (at + 16, "<Q"))]
    return positions


@pytest.mark.parametrize("size", [0, 3, 20, 63, 64, 100])
def test_a_short_object_is_refused(compiled: ObjectCode, size: int) -> None:
    with pytest.raises(LinkError, match=r"not a 64-bit ELF object|damaged object"):
        read_object(compiled.code[:size])


# ---- the CPU's name ---------------------------------------------------------------------------------------------------------


def test_llvms_answer_about_the_cpu_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    asked = host_processor.host_processor()
    assert asked == host_processor._asked()
    monkeypatch.setattr(host_processor, "_asked", lambda: pytest.fail("the answer is in the store"))
    assert host_processor.host_processor() == asked
    described = tmp_path / "modalias"
    described.write_text("cpu:type:other")
    monkeypatch.setattr(host_processor, "_DESCRIPTION", described)
    monkeypatch.setattr(host_processor, "_asked", lambda: asked | {"processor": "other"})
    assert host_processor.host_processor()["processor"] == "other", "another CPU"


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"processor": "x"}', b'{"processor": 1, "features": "", "triple": ""}'])
def test_an_answer_of_another_form_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, payload: bytes) -> None:
    fresh_cache(monkeypatch, tmp_path)
    key = host_processor._key()
    if key is None:
        pytest.skip("the system does not describe its CPU")
    disk_cache.write(disk_cache.Entry(key, "", "", payload))
    assert host_processor.host_processor() == host_processor._asked()
