"""The cache in the process: one compilation per key, complete keys, and observers per thread."""

from __future__ import annotations

import contextvars
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.ops.native import memory, user_function
from relayvm.ops.native.blas.gemm import block_length
from relayvm.ops.native.cache.cache_key import CacheKey, canonical, differences, text_hash
from relayvm.ops.native.compiled import function_fingerprint, kernel_store
from relayvm.ops.native.compiled.kernel_store import SingleFlight, Use
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.jit import marked_accesses, native_compiler, non_temporal
from relayvm.ops.native.memory import native

from .fresh import fresh_cache, fresh_process, key

# ---- single flight -----------------------------------------------------------------------------------------------------------


def test_threads_that_want_the_same_key_make_it_once() -> None:
    flight: SingleFlight[int] = SingleFlight()
    made, start = [], threading.Barrier(8)

    def make() -> int:
        time.sleep(0.02)  # the others come meanwhile
        made.append(1)
        return 7

    def ask(_: int) -> tuple[int, bool]:
        start.wait()
        return flight.get("a", make)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert sorted(found) == [(7, False)] * 7 + [(7, True)] and made == [1]


def test_different_keys_are_made_at_the_same_time() -> None:
    flight: SingleFlight[str] = SingleFlight()
    both = threading.Barrier(2, timeout=10)  # breaks unless two makings are under way at once

    def make(name: str) -> Callable[[], str]:
        def run() -> str:
            both.wait()
            return name

        return run

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda name: flight.get(name, make(name))[0], "ab")) == ["a", "b"]


def test_a_failure_is_its_callers_own_and_the_next_one_tries() -> None:
    flight: SingleFlight[int] = SingleFlight()
    begun = threading.Event()

    def fail() -> int:
        begun.set()
        time.sleep(0.02)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(flight.get, "a", fail)
        begun.wait()
        second = pool.submit(flight.get, "a", lambda: 5)
        with pytest.raises(KeyboardInterrupt):
            first.result()
        assert second.result() == (5, True)


# ---- uses --------------------------------------------------------------------------------------------------------------------


def test_uses_are_counted_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)
    told: list[Use] = []
    begun: list[str] = []
    monkeypatch.setattr(kernel_store, "on_use", [told.append])
    monkeypatch.setattr(kernel_store, "on_compile", [begun.append])
    for _ in range(2):
        assert kernel_store.get_or_make(key(1), "one", lambda: b"code") == b"code"
    fresh_memory = SingleFlight()
    monkeypatch.setattr(kernel_store, "_payloads", fresh_memory)
    assert kernel_store.get_or_make(key(1), "one", pytest.fail) == b"code"
    assert [(use.how, use.name) for use in told] == [("compiles", "one"), ("memory_hits", "one"), ("disk_hits", "one")]
    assert begun == ["one"]
    counted = dict(kernel_store.counters)
    assert counted.pop("bytes_written") > 4 and counted.pop("bytes_read") == 4
    assert counted == {"compiles": 1, "nvrtc_compiles": 1, "memory_hits": 1, "disk_hits": 1}


def test_one_watches_ones_own_thread_and_what_works_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)

    def use(number: int) -> bytes:
        return kernel_store.get_or_make(key(number), str(number), bytes)

    with ThreadPoolExecutor(1) as pool, kernel_store.tracked_uses() as outer:
        use(1)
        with kernel_store.tracked_uses() as inner:
            pool.submit(use, 2).result()  # somebody else's
            pool.submit(contextvars.copy_context().run, use, 3).result()
        use(4)
    use(5)
    assert [u.name for u in outer] == ["1", "3", "4"] and [u.name for u in inner] == ["3"]


def test_threads_that_want_the_same_function_compile_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_cache(monkeypatch, tmp_path)

    @native
    def thrice(x: int) -> int:
        return 3 * x

    with ThreadPoolExecutor(4) as pool:
        found = {*pool.map(lambda _: kernel_store.address_of(thrice, "int64(int64)"), range(8))}
    assert len(found) == 1 and kernel_store.counters["compiles"] == 1 and kernel_store.counters["memory_hits"] == 7
    fresh_process(monkeypatch)
    kernel_store.address_of(thrice, "int64(int64)")
    assert dict(kernel_store.counters).keys() == {"bytes_read", "disk_hits"}


# ---- keys --------------------------------------------------------------------------------------------------------------------

FIELDS = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=3).map(tuple)


@given(FIELDS, FIELDS)
def test_two_records_have_one_id_only_if_they_are_equal(a: Any, b: Any) -> None:
    assert (CacheKey(a).id == CacheKey(b).id) == (a == b)


def test_every_field_of_the_toolchain_tells_keys_apart() -> None:
    fields = native_compiler.toolchain_fields()
    assert {"options", "processor", "features", "triple", "llvmlite", "numpy", "python", "toolchain"} == {*fields}
    base = CacheKey.of("object", fields)
    for name, value in fields.items():
        other = CacheKey.of("object", fields | {name: value + "!"})
        assert other.id != base.id
        assert differences(base, other) == [(name, value, value + "!")]
    assert differences(base, CacheKey.of("cubin", {})) == [
        ("kind", "object", "cubin"),
        *((name, value, None) for name, value in fields.items()),
    ]


def test_the_toolchain_has_every_file_of_the_front_end() -> None:
    """Code that an earlier compiler made is not found after any edit of a file of the compiler."""
    folder = Path(native_compiler.__file__).parents[1]
    read = {path for pattern in native_compiler._TOOLCHAIN for path in folder.glob(pattern)}
    assert {*(folder / "front_end").rglob("*.py")} <= read


def test_the_code_of_a_form_is_the_text_of_all_modules_that_make_it() -> None:
    text = function_fingerprint.source_of(non_temporal.__name__)
    assert all(Path(str(module.__file__)).read_bytes() in text for module in (non_temporal, marked_accesses))


@pytest.mark.parametrize("change", ["version", "variable"])
def test_numba_is_part_of_the_keys_of_users_functions_alone(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    own, users = block_length, native(lambda x: x + 1)
    calls_users = function("def f(x): return K(x)", K=users)
    monkeypatch.delenv("NUMBA_OPT", raising=False)
    before = [function_fingerprint.fingerprint(f) for f in (own, users, calls_users)]
    if change == "variable":
        monkeypatch.setenv("NUMBA_OPT", "1")
    else:
        monkeypatch.setattr(user_function, "installed_version", lambda package: "another")
    after = [function_fingerprint.fingerprint(f) for f in (own, users, calls_users)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, False]


def function(text: str, **names: Any) -> Callable[..., Any]:
    namespace: dict[str, Any] = dict(names)
    define("test", text, namespace)
    return native(namespace["f"])


def test_code_without_optimizations_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = function("def f(x):\n    return x"), []
    for setting in ("0", "1"):
        monkeypatch.setenv(native_compiler.OPTIMIZE_VARIABLE, setting)
        found.append(kernel_store.object_key(code, "int64(int64)", native_compiler.kernel_levels()))
    assert [name for name, *_ in differences(*found)] == ["options"]
    assert found[1] == kernel_store.object_key(code, "int64(int64)")


def module(name: str, **constants: int) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(constants)
    return made


def test_what_decides_the_code_decides_the_fingerprint() -> None:
    arrays = memory.ARRAYS
    same = [
        function("def f(x):\n    'Add K.'\n    return x + K", K=1),
        function("\n\ndef f(x):\n    'Add K to x.'\n    # as above\n    return x + K", K=1, unused=2),
    ]
    others = [
        function("def f(x): return x + K", K=2),
        function("def f(x): return x + K", K=1.0),
        function("def f(x): return x - K", K=1),
        function("def f(x, y=1): return x + K", K=1),
        function("def f(x, y=2): return x + K", K=1),
        function("def f(x): return K(x, 1)", K=arrays["array_float32"]),
        function("def f(x): return K(x, 1)", K=arrays["array_float64"]),
        function("def f(x): return K(x, 1)", K=arrays["array_float64_2d"]),
        function("def f(x): return K(x)", K=np.float32),
        function("def f(x): return K(x)", K=np.float64),
        function("def f(x): return K(x)", K=function("def f(x): return x")),
        function("def f(x): return K(x)", K=function("def f(x): return -x")),
        function("def f(x): return x + K.WIDTH", K=module("a", WIDTH=1)),
        function("def f(x): return x + K.WIDTH", K=module("a", WIDTH=2)),
        function("def f(x): return x in {'a', 'b'}"),
        function("def f(x): return x in {'a', 'c'}"),
    ]
    assert len({function_fingerprint.fingerprint(f) for f in same}) == 1
    assert len({function_fingerprint.fingerprint(f) for f in [same[0], *others]}) == 1 + len(others)


# ---- canonical text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("a // b\nc", "a\nc"),
        ("a // b \\\n still a comment\nc", "a\nc"),
        ("a/* b\n c */d", "a d"),
        ("\n\n  a  \n\t\n b\n", "a\nb"),
        ('s = "// no /* comment";', 's = "// no /* comment";'),
        (r's = "\"// no";', r's = "\"// no";'),
        (r"c = '\''; // one", r"c = '\'';"),
        ("c = '\"'; // one", "c = '\"';"),
        ("a / b // c", "a / b"),
    ],
)
def test_what_stays_of_a_text(text: str, bare: str) -> None:
    assert canonical(text) == bare


WORDS = st.sampled_from(["x", "+", "1.5f", '"//"', "'\"'", "/ ", "\n", "#define A", "(", ")"])
BLANKS = st.sampled_from(["\n\n", ' /* a " b */ \n', " // it's\n", "\n   "])


@settings(max_examples=60)
@given(st.lists(WORDS), st.lists(BLANKS, min_size=1))
def test_comments_and_blank_lines_do_not_count(words: list[str], blanks: list[str]) -> None:
    plain = "\n".join(words)
    dressed = "".join(word + blanks[i % len(blanks)] for i, word in enumerate(words))
    assert text_hash(plain) == text_hash(dressed)
    assert canonical(canonical(plain)) == canonical(plain)
    assert (text_hash(plain + "\ny") == text_hash(plain)) is False
