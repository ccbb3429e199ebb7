"""CUDA C to cubins: once per key, with any compiler; and NVRTC itself, which needs no GPU."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

import pytest

from relayvm.ops.codegen.cuda.device_code import nvrtc, prelude
from relayvm.ops.codegen.cuda.device_code.nvrtc import CudaCompileError, NoNvrtc, Nvrtc
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_key import CacheKey, differences
from relayvm.ops.native.compiled import kernel_store

from ...emulator import proof
from .fresh import fresh_cache, fresh_process

ADD = """
extern "C" __global__ void add(const float32* x, const float32* y, float32* out, int64 n) {
  int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 3.0f + y[i];
}
"""


class FakeCompiler:
    """A compiler that records its calls; its code is its input."""

    def __init__(self, version: str = "fake 1") -> None:
        self.version = version
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        self.asked.append((text, arch, options))
        return f"{self.version} {arch} {text.removeprefix(prelude.PRELUDE)}".encode()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile only the texts of the test, independent of other texts of the run."""
    monkeypatch.setattr(nvrtc, "cubin", proof.CUBIN)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCompiler:
    fresh_cache(monkeypatch, tmp_path)
    found = FakeCompiler()
    monkeypatch.setattr(nvrtc, "compiler", found)
    return found


# ---- through the cache -----------------------------------------------------------------------------------------------------


def model(name: str, heads: int) -> list[str]:
    """The kernels of a model: a block, again and again, then a head of its own; each named in a comment."""
    block = ["int64 a;", "int64 b; /* of a block */", "int64 c;"]
    texts = [f"// {name}, layer {layer}\n{text}\n" for layer in range(6) for text in block]
    return [*texts, *(f"// {name}\nint64 {name}_{head};" for head in range(heads))]


def test_identical_kernels_are_compiled_once_in_all_models(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [(text, "sm_80") for name in ("bert", "gpt") for text in model(name, 2)]
    codes = [nvrtc.cubin(*each) for each in wanted]
    distinct = 3 + 2 * 2
    assert len({*codes}) == distinct == len(fake.asked) == len(list(disk_cache.entry_files()))
    assert kernel_store.counters["compiles"] == kernel_store.counters["nvrtc_compiles"] == distinct
    assert kernel_store.counters["memory_hits"] == len(wanted) - distinct
    fresh_process(monkeypatch)
    assert [nvrtc.cubin(*each) for each in wanted] == codes
    assert (kernel_store.counters["compiles"], kernel_store.counters["disk_hits"], len(fake.asked)) == (0, distinct, distinct)


def test_the_compiler_is_given_the_prelude_then_the_text(fake: FakeCompiler) -> None:
    nvrtc.cubin(ADD, "sm_90")
    assert fake.asked == [(prelude.PRELUDE + ADD, "sm_90", nvrtc.OPTIONS)]


def test_whatever_changes_the_code_is_another_entry(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, CacheKey] = {}

    def made(text: str, arch: str) -> CacheKey:
        """The key of the one entry that this adds."""
        nvrtc.cubin(text, arch)
        entries = {file.id: disk_cache.check(file.path).key for file in disk_cache.entry_files()}
        (new,) = entries.keys() - known.keys()
        known.update(entries)
        return entries[new]

    base = made(ADD, "sm_90")
    others = {"source": made(ADD.replace("3.0f", "4.0f"), "sm_90"), "arch": made(ADD, "sm_80")}
    fake.version = "fake 2"
    others["compiler"] = made(ADD, "sm_90")
    fake.version = "fake 1"
    monkeypatch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, "--maxrregcount=64"))
    others["options"] = made(ADD, "sm_90")
    for name, other in others.items():
        assert [field for field, _, _ in differences(base, other)] == [name]


def test_a_change_of_the_prelude_changes_every_key(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc.cubin(ADD, "sm_90")
    monkeypatch.setattr(prelude, "PRELUDE", prelude.PRELUDE + "// only a comment\n")
    nvrtc.cubin(ADD, "sm_90")
    assert len(fake.asked) == 1
    monkeypatch.setattr(prelude, "PRELUDE", prelude.PRELUDE + "typedef int64 word;\n")
    nvrtc.cubin(ADD, "sm_90")
    assert len(fake.asked) == 2


def test_many_at_once(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc.os, "cpu_count", lambda: 2)
    two = threading.Barrier(2, timeout=10)
    plain = fake.compile

    def meeting(text: str, arch: str, options: tuple[str, ...]) -> bytes:
        two.wait()  # breaks unless two compile at the same time
        return plain(text, arch, options)

    monkeypatch.setattr(fake, "compile", meeting)
    wanted = [(f"int64 x{i % 4};", "sm_80") for i in range(8)]
    with kernel_store.tracked_uses() as uses:
        found = nvrtc.compile_all(wanted, [f"k{i}" for i in range(8)])
    assert found == [f"fake 1 sm_80 {text}".encode() for text, _ in wanted]
    assert sorted(u.name for u in uses) == [f"k{i}" for i in range(8)] and len(fake.asked) == 4
    assert nvrtc.compile_all([]) == []


def test_the_first_failure_of_many_is_raised(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, arch: str, options: tuple[str, ...]) -> bytes:
        raise CudaCompileError(arch)

    monkeypatch.setattr(fake, "compile", refuse)
    with pytest.raises(CudaCompileError, match="sm_80"):
        nvrtc.compile_all([("int64 x;", arch) for arch in ("sm_80", "sm_90")])
    assert list(disk_cache.entry_files()) == []


# ---- where there is none -----------------------------------------------------------------------------------------------------


def test_without_cupy_one_line_says_so(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    monkeypatch.setattr(nvrtc, "compiler", Nvrtc())
    with pytest.raises(NoNvrtc) as error:
        nvrtc.cubin(ADD, "sm_90")
    assert str(error.value).startswith("no CUDA compiler: cupy cannot be imported (")
    assert str(error.value).endswith("); install relayvm[cuda13] or relayvm[cuda12]") and "\n" not in str(error.value)


def test_without_nvrtc_one_line_says_so(fake: FakeCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        class nvrtc:  # as cupy calls it
            @staticmethod
            def getVersion() -> None:
                raise RuntimeError("Failed to find NVRTC\nwith\nmany words")

    monkeypatch.setitem(sys.modules, "cupy", Cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda", Cuda)
    monkeypatch.setattr(nvrtc, "compiler", Nvrtc())
    with pytest.raises(NoNvrtc) as error:
        nvrtc.cubin(ADD, "sm_90")
    words = "no CUDA compiler: NVRTC cannot be loaded (Failed to find NVRTC); install relayvm[cuda13] or relayvm[cuda12]"
    assert str(error.value) == words


# ---- NVRTC -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nvrtc:
    fresh_cache(monkeypatch, tmp_path)
    found = Nvrtc()
    try:
        _ = found.version
    except NoNvrtc as error:
        pytest.skip(str(error))
    monkeypatch.setattr(nvrtc, "compiler", found)
    return found


def test_nvrtc_compiles_for_several_gpus(real: Nvrtc) -> None:
    found = [nvrtc.cubin(ADD, arch, "add") for arch in ("sm_80", "sm_90", "sm_90a")]
    assert len({*found}) == 3 and all(code[:4] == b"\x7fELF" and b"add" in code for code in found)
    assert nvrtc.compile_all([(ADD, "sm_80"), (ADD, "sm_90")]) == found[:2]
    assert kernel_store.counters["compiles"] == 3 and "Build ID" in real.version and real.version.startswith("NVRTC ")


def test_an_image_is_what_nvrtc_made_to_the_last_byte(real: Nvrtc) -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    plain = ctypes.CDLL(next(line.split()[-1] for line in maps if "libnvrtc.so" in line))
    for arch in ("sm_80", "sm_90", "sm_90a"):
        image = nvrtc.cubin(ADD, arch)
        program = real._library.createProgram(prelude.PRELUDE + ADD, "kernel.cu", (), ())
        real._library.compileProgram(program, (f"--gpu-architecture={arch}", *nvrtc.OPTIONS))
        size = ctypes.c_size_t()
        assert plain.nvrtcGetCUBINSize(ctypes.c_void_p(program), ctypes.byref(size)) == 0
        made = ctypes.create_string_buffer(size.value)
        assert plain.nvrtcGetCUBIN(ctypes.c_void_p(program), made) == 0
        real._library.destroyProgram(program)
        assert image == made.raw and nvrtc.image_bytes(image) <= len(image)


def test_an_entry_from_before_images_were_whole_is_not_used(real: Nvrtc) -> None:
    whole = nvrtc.cubin(ADD, "sm_90")
    keys = [disk_cache.check(file.path).key for file in disk_cache.entry_files()]
    (key,) = (key for key in keys if key.kind == "cubin")  # beside NVRTC's version
    short = CacheKey(tuple(field for field in key.fields if field[0] != "image"))
    assert short != key and dict(key.fields)["image"] == "whole"
    assert nvrtc._whole(whole[:-1]) == nvrtc._whole(whole) == whole
    with pytest.raises(AssertionError, match="2 too few"):
        nvrtc._whole(whole[:-2])


def test_the_options_keep_denormals_and_round_each_operation(real: Nvrtc) -> None:
    library = real._library
    program = library.createProgram(prelude.PRELUDE + ADD, "kernel.cu", (), ())
    library.compileProgram(program, ("--gpu-architecture=compute_80", *nvrtc.OPTIONS))
    text = library.getPTX(program).decode()
    library.destroyProgram(program)
    assert "mul" in text and "fma" not in text and ".ftz" not in text


def test_an_error_shows_the_source(real: Nvrtc) -> None:
    with pytest.raises(CudaCompileError) as error:
        nvrtc.cubin(ADD.replace("y[i]", "z[i]"), "sm_80")
    text = str(error.value)
    line = prelude.PRELUDE.count("\n") + 4
    assert text.startswith(f"a CUDA kernel does not compile for sm_80; this is a bug in relayvm\nkernel.cu({line}): error:")
    assert f"\n> {line:>5} |   if (i < n) out[i] = x[i] * 3.0f + z[i];\n" in text
    assert "cubin" not in {disk_cache.check(file.path).key.kind for file in disk_cache.entry_files()}


def test_a_gpu_that_nvrtc_does_not_know(real: Nvrtc) -> None:
    with pytest.raises(NoNvrtc, match=r"^NVRTC \d+\.\d+ does not compile for sm_10, only for sm_.*sm_90"):
        nvrtc.cubin(ADD, "sm_10")
