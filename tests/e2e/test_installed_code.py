"""``relayvm cache install``: a process with an empty cache finds the machine's own code in the folder of the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import numpy as np
import pytest

from relayvm.compiler.commands.cli import main
from relayvm.compiler.commands.terminal.exit_codes import ExitCode
from relayvm.compiler.installation.install import store_bytecode
from relayvm.ops.native.cache import disk_cache, installed_entries
from relayvm.ops.native.cache.cache_entry import Entry, pack
from relayvm.ops.native.cache.disk_cache import CacheWarning
from relayvm.ops.native.compiled.kernel_store import SHARED
from relayvm.ops.native.jit.native_compiler import OPTIMIZE_VARIABLE, has_near_constants

from ..ops.native.fresh import entry, fresh_cache, key


def relayvm(code: Path, cache: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {installed_entries.FOLDER_VARIABLE: str(code), disk_cache.FOLDER_VARIABLE: str(cache)}
    command = [sys.executable, "-m", "relayvm", *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed code."""
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIMIZE_VARIABLE, "1")  # kernels that fold constants, as an installation has them
        written = json.loads(relayvm(folder / "code", folder / "cache", "cache", "install", "--json").stdout)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert written == {"folder": str(folder / "code"), "written": len(files)}
    assert {disk_cache.check(path).key.kind for path in files} == {"digest", "grammar", "object", "processor"}
    return folder / "code"


def compiled(program: str, code: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> tuple[list[Entry], str]:
    """The entries that a run of a program writes into an empty cache, and what it reports."""
    (folder / "p.relay").write_text(f'#[version = "0.0.5"]\n{program}\n')
    reported = relayvm(code, folder / "cache", "run", str(folder / "p.relay"), *args).stderr
    monkeypatch.setenv(disk_cache.FOLDER_VARIABLE, str(folder / "cache"))
    return [disk_cache.check(file.path) for file in disk_cache.entry_files()], reported


@pytest.mark.extensive
@pytest.mark.optimized
def test_a_process_compiles_nothing_that_is_installed(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(relayvm(code, tmp_path / "cache", "cache", "install", "--json").stdout)["written"] == 0
    entries, reported = compiled("def @main(%x: Tensor[(3,), float32]) { %x }", code, tmp_path, monkeypatch)
    assert [entry.key.kind for entry in entries] == ["executable"]
    assert not [line for line in reported.splitlines() if not line.startswith("relayvm: compiling")]  # progress, where it is slow


#: Convolutions of a network, each of the data before it, and layers of bytes.
_NETWORK = """
def @main(
  %x: Tensor[(?n, 3, 112, 112), float32], %a: Tensor[(16, 3, 3, 3), float32], %b: Tensor[(80, 16, 1, 1), float32],
  %c: Tensor[(80, 1, 3, 3), float32], %d: Tensor[(24, 80, 1, 1), float32], %e: Tensor[(24, 1, 5, 5), float32],
  %f: Tensor[(24, 1, 3, 3), float32], %g: Tensor[(400, 24, 7, 7), float32], %h: Tensor[(36, 400, 1, 1), float32],
  %i: Tensor[(?n, 3, 30, 30), uint8], %j: Tensor[(1, 4, 9, 8), int32], %k: Tensor[(32,), int32], %l: Tensor[(1,), uint8],
  %m: Tensor[(?n, 96), uint8], %o: Tensor[(5, 24, 16, 4), int8], %p: Tensor[(70,), int32]
) {
  %0 = tanh(nn.conv2d(%x, %a, strides=[2, 2], padding=[1, 1]));
  %1 = sigmoid(nn.conv2d(%0, %b));
  %2 = nn.conv2d(nn.conv2d(%1, %c, padding=[1, 1], groups=80), %d);
  %3 = exp(nn.conv2d(%2, %e, strides=[2, 2], padding=[2, 2], groups=24));
  %4 = negative(nn.conv2d(%3, %f, padding=[1, 1], groups=24));
  %5 = abs(nn.conv2d(%4, %g, strides=[2, 2], padding=[2, 2], dilation=[1, 1]));
  let %bytes = nn.byte_conv2d(%i, %j, %k, %l, kernel_size=[3, 3], form="columns", strides=[2, 2], padding=[1, 1]);
  (nn.conv2d(%5, %h), %bytes, nn.dense_byte_panels(%m, %o, %p))
}"""


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(not has_near_constants(), reason="each object is whole on this platform")
def test_the_parts_of_usual_convolutions_are_installed(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, _ = compiled(_NETWORK, code, tmp_path, monkeypatch, "--dim", "n=2")
    names = [entry.name for entry in entries]
    assert sum("conv2d" in name for name in names) >= 8 and sum("byte" in name for name in names) == 2
    assert not [name for name in names if name.startswith("part ")]


#: Layers of a residual network with other sizes than those that are installed.
_BLOCKS = """
def @main(
  %x: Tensor[(?n, 3, 192, 192), float32], %y: Tensor[(?n, 96), float32], %a: Tensor[(64, 3, 7, 7), float32],
  %b: Tensor[(64,), float32], %c: Tensor[(96, 64, 1, 1), float32], %d: Tensor[(96,), float32],
  %f: Tensor[(1000, 96), float32], %g: Tensor[(1000,), float32]
) {
  let %stem = nn.relu(nn.bias_add(nn.conv2d(%x, %a, strides=[2, 2], padding=[3, 3]), %b));
  let %pooled = nn.max_pool2d(%stem, pool_size=[3, 3], strides=[2, 2], padding=[1, 1]);
  let %wide = nn.relu(nn.bias_add(nn.conv2d(%pooled, %c), %d));
  (%wide, add(nn.matmul(%y, %f, transpose_b=True), %g))
}"""


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(not has_near_constants(), reason="each object is whole on this platform")
def test_kernels_of_usual_networks_are_installed(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {"a": (64, 3, 7, 7), "b": (64,), "c": (96, 64, 1, 1), "d": (96,), "f": (1000, 96), "g": (1000,)}
    np.savez(tmp_path / "w.npz", **{name: np.ones(shape, "float32") for name, shape in shapes.items()})
    entries, _ = compiled(_BLOCKS, code, tmp_path, monkeypatch, "--dim", "n=2", "--params", str(tmp_path / "w.npz"))
    assert {entry.key.kind for entry in entries} == {"object"} and len(entries) >= 5
    assert SHARED not in {entry.name for entry in entries}, "every kernel is an installed one with other literals"


#: A product of bytes with a bias and one of heads, as tools quantise them, of sizes, scales and zero points that no installed
#: kernel has.
_QUANTISED = """
def @main(
  %x: Tensor[(1, ?n, 96), uint8], %w: Tensor[(96, 128), int8], %s: Tensor[(128), float32], %z: Tensor[(128), int8],
  %b: Tensor[(128), uint8], %p: Tensor[(1, ?n, 3, 48), uint8], %q: Tensor[(1, ?n, 3, 48), uint8]
) {
  %0 = nn.matmul(qnn.dequantize(%x, 0.057f, 77u8), qnn.dequantize(%w, %s, %z, axis=1));
  %1 = qnn.quantize(%0, 0.91f, 66u8, out_dtype="uint8", ties="even");
  %2 = add(qnn.dequantize(%1, 0.91f, 66u8), qnn.dequantize(%b, 0.003f, 88u8));
  %3 = reshape(transpose(%p, axes=[0, 2, 1, 3]), newshape=[-3, -2]);
  %4 = transpose(reshape(transpose(%q, axes=[0, 2, 3, 1]), newshape=[-3, -2]), axes=[0, 2, 1]);
  %5 = multiply(cast(qnn.batch_matmul(%3, %4, 73u8, 128u8, 1f, 1f), dtype="float32"), 0.0171f);
  (qnn.quantize(%2, 0.97f, 99u8, out_dtype="uint8", ties="even"), qnn.quantize(%5, 1f, 91u8, out_dtype="uint8", ties="even"))
}"""


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(not has_near_constants(), reason="no kernels share their code on this platform")
def test_the_kernels_of_usual_quantised_layers_are_installed(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    weight, scales = rng.integers(-128, 128, (96, 128)).astype("int8"), rng.random(128, "float32")
    np.savez(tmp_path / "w.npz", w=weight, s=scales, z=np.zeros(128, "int8"), b=rng.integers(0, 256, 128).astype("uint8"))
    entries, _ = compiled(_QUANTISED, code, tmp_path, monkeypatch, "--params", str(tmp_path / "w.npz"), "--dim", "n=3")
    # the installed code with its own literals; constants were folded by installed code
    names = {entry.name for entry in entries if entry.key.kind == "object"}
    assert {name for name in names if not name.startswith("the ")} == {
        "fused_nn_dense_byte_panels_subtract_cast_multiply_rint_add_clip_ca",
        "fused_nn_batch_matmul_multiply_subtract_cast_multiply_rint_add_cli",
        "fused_transpose_bitwise_xor_cast",
        "transpose",
        "nn_batch_matmul",
    }


#: A convolution in the form QOperator with an activation, and one with a sum; bytes between are signed, and a zero point is 0.
_INVERTED = """
def @main(
  %x: Tensor[(?n, 24, 56, 56), uint8], %w: Tensor[(40, 24, 1, 1), int8], %f: Tensor[(40, 1, 1), float32],
  %v: Tensor[(24, 40, 1, 1), int8], %g: Tensor[(24, 1, 1), float32], %b: Tensor[(40), int32], %c: Tensor[(24), int32]
) {
  let %p = nn.bias_add(qnn.conv2d(%x, %w, 7u8, 0, 1f, 1f), %b);
  let %q = qnn.quantize(multiply(cast(%p, dtype="float32"), %f), 1f, -128i8, out_dtype="int8", ties="even");
  let %r = nn.bias_add(qnn.conv2d(%q, %v, -128i8, 0, 1f, 1f), %c);
  let %s = qnn.quantize(multiply(cast(%r, dtype="float32"), %g), 1f, 0i8, out_dtype="int8", ties="even");
  let %t = add(qnn.dequantize(%x, 0.03f, 7u8), qnn.dequantize(%s, 0.02f, 0i8));
  qnn.quantize(%t, 0.041f, 99u8, out_dtype="uint8", ties="even")
}"""


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(not has_near_constants(), reason="no kernels share their code on this platform")
def test_the_kernels_of_usual_byte_networks_are_installed(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"w": np.ones((40, 24, 1, 1), "int8"), "v": np.ones((24, 40, 1, 1), "int8"), "b": np.arange(40), "c": np.arange(24)}
    factors = {"f": np.full((40, 1, 1), 0.013, "float32"), "g": np.full((24, 1, 1), 0.017, "float32")}
    arrays = {name: array.astype("int32") if name in "bc" else array for name, array in (weights | factors).items()}
    np.savez(tmp_path / "w.npz", **arrays)
    entries, _ = compiled(_INVERTED, code, tmp_path, monkeypatch, "--params", str(tmp_path / "w.npz"), "--dim", "n=2")
    names = [entry.name for entry in entries if entry.key.kind == "object"]
    assert sum("byte_conv2d" in name for name in names) == 2
    assert SHARED not in names, "every kernel is an installed one with other literals"


#: A block of a residual network of bytes with a window before it, of known sizes that no installed program has.
_RESIDUAL = """
def @main(
  %x: Tensor[(1, 32, 60, 60), uint8], %w: Tensor[(32, 32, 3, 3), int8], %v: Tensor[(32, 32, 3, 3), int8],
  %f: Tensor[(32), float32], %z: Tensor[(32), int8], %b: Tensor[(32), int32], %g: Tensor[(32), float32], %o: Tensor[(32), int32]
) {
  let %d = qnn.dequantize(%x, 0.03f, 0u8);
  let %p = nn.bias_add(nn.conv2d(%d, qnn.dequantize(%w, %f, %z, axis=0), padding=[1, 1]), qnn.dequantize(%b, %g, %o, axis=0));
  let %q = qnn.dequantize(qnn.quantize(%p, 0.07f, 0u8, out_dtype="uint8", ties="even"), 0.07f, 0u8);
  let %r = nn.bias_add(nn.conv2d(%q, qnn.dequantize(%v, %f, %z, axis=0), padding=[1, 1]), qnn.dequantize(%b, %g, %o, axis=0));
  let %s = qnn.dequantize(qnn.quantize(%r, 0.11f, 93u8, out_dtype="uint8", ties="even"), 0.11f, 93u8);
  qnn.quantize(add(%d, %s), 0.13f, 0u8, out_dtype="uint8", ties="even")
}"""


@pytest.mark.extensive
@pytest.mark.optimized
@pytest.mark.skipif(not has_near_constants(), reason="no kernels share their code on this platform")
def test_the_kernels_of_usual_residual_networks_of_bytes_are_installed(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = {name: np.ones((32, 32, 3, 3), "int8") for name in "wv"} | {"z": np.zeros(32, "int8"), "o": np.zeros(32, "int32")}
    scales = {"f": np.full(32, 0.013, "float32"), "g": np.full(32, 0.0011, "float32"), "b": np.arange(32, dtype="int32")}
    np.savez(tmp_path / "w.npz", **weights, **scales)
    entries, _ = compiled(_RESIDUAL, code, tmp_path, monkeypatch, "--params", str(tmp_path / "w.npz"))
    names = [entry.name for entry in entries if entry.key.kind == "object"]
    assert sum("byte_conv2d" in name for name in names) == 2
    assert SHARED not in names, "every kernel is an installed one with other literals"


@pytest.mark.extensive
@pytest.mark.optimized
def test_tiles_of_bytes_are_the_machines_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relayvm(tmp_path / "code", tmp_path / "cache", "cache", "install", "--own")
    program = """
def @main(%x: Tensor[(?n, 96), uint8], %w: Tensor[(5, 24, 16, 4), int8], %s: Tensor[(70,), int32]) {
  nn.dense_byte_panels(%x, %w, %s)
}"""
    entries, _ = compiled(program, tmp_path / "code", tmp_path, monkeypatch, "--dim", "n=2")
    names = [entry.name for entry in entries if entry.key.kind == "object"]
    assert "nn_dense_byte_panels" in names and not [name for name in names if name.startswith("part ")]


def test_bytecode_is_stored_beside_sources(tmp_path: Path) -> None:
    sources = [tmp_path / "__init__.py", tmp_path / "vm" / "api" / "machine.py"]
    sources[1].parent.mkdir(parents=True)
    for source in sources:
        source.write_text("x = 1\n")
    (tmp_path / "vm" / "damaged.py").write_text("x =\n")
    store_bytecode(tmp_path)
    stored = [Path(cache_from_source(str(source))) for source in sources]
    assert all(path.read_bytes()[:4] == MAGIC_NUMBER for path in stored)


def installed(number: int) -> Path:
    path = installed_entries.path_of(key(number).id)
    path.parent.mkdir(parents=True)
    path.write_bytes(pack(entry(number)))
    return path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of installed code, beside an empty cache."""
    monkeypatch.setenv(installed_entries.FOLDER_VARIABLE, str(tmp_path / "code"))
    fresh_cache(monkeypatch, tmp_path)
    return tmp_path / "code"


def test_an_installed_entry_is_read_and_never_written(folders: Path) -> None:
    path = installed(1)
    before = path.stat()
    assert disk_cache.read(key(1)) == entry(1) and disk_cache.is_stored(key(1))
    assert disk_cache.read(key(2)) is None and not disk_cache.is_stored(key(2))
    assert path.stat() == before and not [*disk_cache.entry_files()]
    disk_cache.clear()
    assert path.exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: pack(entry(2))])
def test_a_damaged_installed_entry_is_a_miss_and_a_warning(folders: Path, damage: object) -> None:
    path = installed(1)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.warns(CacheWarning, match=r"cannot be used: .*compiling again \(see `relayvm cache install`\)") as warned:
        assert disk_cache.read(key(1)) is None
        assert disk_cache.read(key(1)) is None
    assert len(warned) == 1


def test_a_folder_that_cannot_be_written_is_an_error_before_all_compilations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code").write_text("")
    monkeypatch.setenv(installed_entries.FOLDER_VARIABLE, str(tmp_path / "code"))
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.setattr("relayvm.compiler.installation.install.tables", lambda: pytest.fail("the grammar is compiled first"))
    assert main(["cache", "install", "--own"]) == ExitCode.FILE
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: cannot write {tmp_path / 'code'}: Not a directory",
        "help: install as the owner of the package's folder",
    ]
