"""The cache of executables of files: equal inputs are a hit, everything that the compiler reads is a miss when it changes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay
from relayvm.compiler import executable_cache
from relayvm.compiler.commands.cli import main
from relayvm.compiler.onnx_frontend import operator_table
from relayvm.compiler.settings.config import Config
from relayvm.compiler.tuning.settings import Tuning
from relayvm.declarations.deferred import Deferred
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.tuning import tuning_records
from relayvm.ops.native.tuning.fingerprint import fingerprint
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.bytecode.trusted import is_compiled_here
from relayvm.vm.machine import machine_code
from relayvm.vm.options import CHECK_VARIABLE
from relayvm.vm.runtime.kernels.prepared import Prepared

from ..ops.native.fresh import fresh_cache, fresh_process

SUM = "Add"


def written(path: Path, weights: list[float], operator: str = SUM, external: str | None = None) -> Path:
    """A model's file: an operator on `x` and stored weights, which may be in a file beside the model."""
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", len(weights)])
    tensors = [numpy_helper.from_array(np.array(weights, "float32"), "w")]
    nodes = [helper.make_node(operator, ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name="y")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    if external:
        (path.parent / external).unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=external is not None, location=external, size_threshold=0)
    return path


def counts(compiled: Callable[[], object]) -> tuple[int, int, int]:
    """Hits, misses and writes of a call."""
    names = ("hits", "misses", "writes")
    before = [executable_cache.counters[name] for name in names]
    compiled()
    hits, misses, writes = (executable_cache.counters[name] - n for name, n in zip(names, before, strict=True))
    return hits, misses, writes


HIT, MISS, UNSTORED, UNUSED = (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of a model whose executable is in a new cache."""
    fresh_cache(monkeypatch, tmp_path)
    path = written(tmp_path / "model.onnx", [1, 2])
    assert counts(lambda: relay.compile(path)) == MISS
    return path


def test_a_hit_is_the_same_executable(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: list[Any] = []
    assert counts(lambda: found.append(relay.compile(str(model)))) == HIT
    fresh = relay.compile(relay.frontend.from_onnx(model)[0])
    assert to_bytes(found[0]) == to_bytes(fresh)
    assert is_compiled_here(found[0]), "its launches run the same kernels, without checks"
    assert counts(lambda: main(["dump", str(model), "--stage", "bytecode"])) == HIT
    capsys.readouterr()
    assert main(["cache", "info"]) == 0 and "executable 1 entry" in capsys.readouterr().out


def test_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    path = tmp_path / "program.relay"
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 2), float32]) { add(%x, %x) }'
    path.write_text(text)
    found: list[Any] = []
    for expected in (MISS, HIT):
        assert counts(lambda: found.append(relay.compile(path))) == expected
    assert to_bytes(found[0]) == to_bytes(found[1])
    x = np.ones((3, 2), "float32")
    np.testing.assert_array_equal(relay.VirtualMachine(found[1]).run(x).numpy(), x + x)
    assert counts(lambda: relay.compile(text)) == UNUSED
    path.write_text(text.replace("add", "multiply"))
    assert counts(lambda: relay.compile(path)) == MISS
    path.write_text(text.replace("add", "ad"))
    for _ in range(2):  # an error is found each time
        with pytest.raises(relay.RelayError, match="ad"):
            relay.compile(path)


def test_declarations_of_users_are_not_cached(model: Path) -> None:
    relay.register_shape_func("add", False, lambda inputs, attrs: inputs[0].shape)
    try:
        assert counts(lambda: relay.compile(model)) == UNSTORED
    finally:
        relay.restore_shape_func("add")
    relay.register_op("my.twice", ["x"], element=lambda x: x + x)
    try:
        assert counts(lambda: relay.compile(model)) == UNSTORED
    finally:
        relay.unregister_op("my.twice")
    assert counts(lambda: relay.compile(model)) == HIT


def test_what_the_compiler_reads_is_in_the_key(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def misses(**arguments: Any) -> None:
        """A first compilation is a miss, and a second one a hit."""
        assert counts(lambda: relay.compile(model, **arguments)) == MISS
        assert counts(lambda: relay.compile(model, **arguments)) == HIT

    misses(target="sim")
    misses(fuse=False)
    misses(**{"impl.nn.conv2d": "im2col"})
    misses(tune="off")
    with relay.transform.PassContext(opt_level=0):
        misses()
    written(model, [1, 3])  # as long as before
    misses()
    data = tuning_records.Record(fingerprint("tuning", {"operator": "nn.conv2d"}, {}), {"ns": [1.5]})
    assert tuning_records.save([data]) == 1
    misses()
    fields = ("machine_fields", {"threads": "3"}), ("code_fields", {"numba": "9"})
    for name, value in [("source_digest", "other sources"), *fields]:
        with monkeypatch.context() as changed:
            changed.setattr(executable_cache, name, lambda *_, value=value: value)
            misses()
    with monkeypatch.context() as changed:
        changed.setattr(executable_cache, "installed_version", lambda package: "9")
        misses()
    other = tmp_path / "other.onnx"  # messages name the file
    other.write_bytes(model.read_bytes())
    assert counts(lambda: relay.compile(other)) == MISS


def test_sources_are_told_apart_by_their_contents(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another installation of the same version has files of other times: it finds what was imported from here."""
    states = executable_cache._states

    def later(folder: Path) -> Any:
        return ((path, size, changed + 1, entered + 1) for path, size, changed, entered in states(folder))

    first = executable_cache.source_digest()
    executable_cache.source_digest.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(executable_cache, "_states", later)
        changed.setattr(executable_cache, "_LOADED_NS", executable_cache._LOADED_NS + 10)
        assert executable_cache.source_digest() == first
    executable_cache.source_digest.cache_clear()


def test_the_digest_of_a_large_file_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(executable_cache, "_LATELY_NS", 0)
    read, read_digest = list[Path](), executable_cache._read_digest
    monkeypatch.setattr(executable_cache, "_read_digest", lambda path: (read.append(path), read_digest(path))[1])
    path = tmp_path / "large"
    for data, reads in [(b"a", 1), (b"b", 2)]:
        path.write_bytes(data * executable_cache._LARGE)
        expected = hashlib.sha256(path.read_bytes()).hexdigest()
        assert [executable_cache._digest_of(path) for _ in range(3)] == [expected] * 3 and len(read) == reads
    monkeypatch.setattr(executable_cache, "_LATELY_NS", 10**12)  # its times may not tell
    assert executable_cache._digest_of(path) == executable_cache._digest_of(path) == expected and len(read) == 4


def test_large_executables_are_written_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_cache(monkeypatch, tmp_path)
    monkeypatch.setattr(executable_cache, "_MANY_BYTES", 0)
    monkeypatch.setenv("RELAYVM_NUM_THREADS", "2")
    path = written(tmp_path / "m.onnx", [1, 2])
    relay.compile(path)
    assert counts(lambda: relay.compile(path))[:2] == HIT[:2], "the next compilation waits"


def test_data_files_of_a_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    path = written(tmp_path / "model.onnx", [1, 2], external="weights.bin")
    first = path.read_bytes()
    found: list[Any] = []
    for expected, weights in [(MISS, [1, 2]), (HIT, [1, 2]), (MISS, [1, 3]), (HIT, [1, 3])]:
        written(path, weights, external="weights.bin")
        assert path.read_bytes() == first, "the model's own file stays as it is"
        assert counts(lambda: found.append(relay.compile(path))) == expected
        assert [c.tolist() for c in found[-1].constants] == [weights]
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(relay.RelayError, match=r"weights\.bin cannot be read"):
        relay.compile(path)


def test_executables_that_depend_on_more_are_not_cached(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert counts(lambda: relay.compile(model, params={"x": np.zeros((1, 2), "float32")})) == UNUSED
    assert counts(lambda: relay.compile(model, tune="budgeted", tune_seconds=0.001)) == UNUSED
    assert counts(lambda: relay.compile(relay.frontend.from_onnx(model)[0])) == UNUSED
    with monkeypatch.context() as changed:
        changed.setattr(operator_table, "_TABLE", {k: list(v) for k, v in operator_table._TABLE.items()})
        operator_table.onnx_operator("Mine", domain="test")(lambda node: None)
        assert counts(lambda: relay.compile(model)) == UNSTORED
    executable_cache.source_digest.cache_clear()
    with monkeypatch.context() as changed:  # a source file is newer than the modules of this process
        changed.setattr(executable_cache, "_LOADED_NS", 0)
        assert counts(lambda: relay.compile(model)) == UNSTORED
    executable_cache.source_digest.cache_clear()
    assert counts(lambda: relay.compile(model)) == HIT


@pytest.mark.parametrize("lately", [0, executable_cache._LATELY_NS])
def test_a_file_that_is_replaced_meanwhile_is_not_stored(model: Path, lately: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the state of the file tells it (0), or its contents."""
    monkeypatch.setattr(executable_cache, "_LATELY_NS", lately)
    exe = relay.compile(model)
    written(model, [5, 6])

    def compiled() -> Any:
        written(model, [7, 8])
        return exe, {}

    arguments = (model, "cpu", Config.of(), Tuning())
    assert counts(lambda: executable_cache.cached(*arguments, compiled)) == UNSTORED


def test_a_file_is_hashed_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_cache, "_LATELY_NS", 0)
    hashed, digest_of = list[Path](), executable_cache._digest_of
    monkeypatch.setattr(executable_cache, "_digest_of", lambda path: (hashed.append(path), digest_of(path))[1])
    written(model, [5, 6])
    assert counts(lambda: relay.compile(model)) == MISS
    assert hashed == [model]


def entry_of(model: Path) -> Path:
    key = executable_cache.key_of(model, "cpu", Config.of(), Tuning())
    assert isinstance(key, CacheKey)
    return disk_cache.path_of(key.id)


def test_damaged_and_foreign_entries(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = entry_of(model)
    good = path.read_bytes()
    payload = len(good) - len(disk_cache.check(path).payload)
    # in the key, in the length of the head, in the head, in the executable: read while the checksum is compared
    for place in (payload // 2, payload + 2, payload + 20, len(good) // 2, len(good) - 40):
        disk_cache._causes.cache_clear()
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.warns(disk_cache.CacheWarning, match="its checksum is wrong"):
            assert counts(lambda: relay.compile(model)) == MISS
        assert path.read_bytes() == good
    path.chmod(0o666)
    disk_cache._causes.cache_clear()
    with pytest.warns(disk_cache.CacheWarning, match="other users may write"):
        assert counts(lambda: relay.compile(model)) == MISS
    assert os.stat(path).st_mode & 0o077 == 0
    # a whole entry whose contents are no executable
    head = b'{"files": {}, "prepared": null}'
    disk_cache.write(disk_cache.check(path)._replace(payload=len(head).to_bytes(8, "little") + head + b"no executable"))
    disk_cache._causes.cache_clear()
    with pytest.warns(disk_cache.CacheWarning, match="not an executable"):
        assert counts(lambda: relay.compile(model)) == MISS


def test_the_cap(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = entry_of(model).stat().st_size
    disk_cache.clear()
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, str(size))  # the kernels of other programs stay
    assert counts(lambda: relay.compile(model)) == UNSTORED
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, "0")
    assert counts(lambda: relay.compile(model)) == UNSTORED
    monkeypatch.setenv(disk_cache.CAP_VARIABLE, str(executable_cache.LARGEST_SHARE * size))
    assert counts(lambda: relay.compile(model)) == MISS


def test_a_machine_of_a_hit_reads_no_description_of_a_kernel(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(6, dtype="float32").reshape(3, 2)
    expected = relay.VirtualMachine(relay.compile(model)).run(x).numpy()
    monkeypatch.setenv(CHECK_VARIABLE, "0")
    fresh_process(monkeypatch)
    exe = relay.compile(model)
    assert isinstance(exe.packed, Deferred) and len(exe.packed) == 1
    monkeypatch.setattr(exe.packed, "_make", None)
    machine = relay.VirtualMachine(exe)
    np.testing.assert_array_equal(machine.run(x).numpy(), expected)
    assert kernel_store.counters["compiles"] == 0 and [use.name for use in machine.prepared] == ["add"]


def test_kernels_that_were_evicted_are_compiled_from_their_descriptions(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(6, dtype="float32").reshape(3, 2)
    expected = relay.VirtualMachine(relay.compile(model)).run(x).numpy()
    for file in list(disk_cache.entry_files()):
        if disk_cache.check(file.path).key.kind == "object":
            file.path.unlink()
    fresh_process(monkeypatch)
    machine = relay.VirtualMachine(relay.compile(model))
    np.testing.assert_array_equal(machine.run(x).numpy(), expected)
    assert {use.how for use in machine.prepared} == {"compiles"}


def test_a_hit_is_verified_when_it_was_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    asked: list[relay.Executable] = []
    monkeypatch.setattr(executable_cache, "verify", asked.append)
    path = written(tmp_path / "model.onnx", [1, 2])
    exe = relay.compile(path)
    assert asked == [exe]
    relay.compile(path)
    assert asked == [exe]


def test_prepared_kernels_are_the_same_when_it_is_read(model: Path) -> None:
    made = machine_code.prepared(relay.compile(model))
    assert made is not None and len(made.kernels) == 1 and len(made.functions) > 10
    assert Prepared.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_checks_of_launches_read_the_descriptions(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECK_VARIABLE, "1")
    exe = relay.compile(model)
    relay.VirtualMachine(exe)
    assert exe.packed[0].name == "add"
