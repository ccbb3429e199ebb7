"""Kernels and shape functions of users that are none: a diagnostic with the line of the function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import pytest

import relayvm as relay
from relayvm.custom_op import result_size
from relayvm.ops.registration.custom_op import has_own_declarations

from ...programs import HEADER

NAME = "users.own"
TEXT = HEADER + "def @main(%x: Tensor[(?n), float32]) { users.own(%x) }"


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Register an operator, compile it and run it on three numbers."""
    named = []

    def ran(kernel: Any, shape: Any = lambda inputs, attrs: inputs[0].shape) -> np.ndarray:
        relay.register_shape_func(NAME, [False], shape)
        relay.register_op(NAME, ["x"], kernel=kernel)
        named.append(NAME)
        return relay.VirtualMachine(relay.compile(TEXT)).run(np.arange(3, dtype="f")).numpy()

    yield ran
    for name in named:
        relay.unregister_op(name)


def twice(x: Any, out: Any) -> int:
    for i in range(out.shape[0]):
        out[i] = 2 * x[i]
    return 0


def unknown(x: Any, out: Any) -> int:
    for i in range(out.shape[0]):
        out[i] = not_defined(x[i])  # type: ignore[name-defined]  # noqa: F821
    return 0


def text_in_numbers(x: Any, out: Any) -> int:
    out[0] = "text"
    return 0


def opens(x: Any, out: Any) -> int:
    with open("a"):
        out[0] = 1
    return 0


def three(x: Any, y: Any, out: Any) -> int:
    return 0


def no_result(x: Any, out: Any) -> None:
    out[0] = x[0]


def text(x: Any, out: Any) -> str:
    return "done"


_HELP = "a kernel is compiled by numba without Python objects: it works on numbers and the elements of its arrays"
_STATUS = "its result is no integer on every way through it"
#: By function: the reason, the text of the line, the help.
REFUSED: dict[Callable[..., Any], tuple[str, str, str]] = {
    unknown: ("NameError: name 'not_defined' is not defined", "out[i] = not_defined(x[i])", _HELP),
    text_in_numbers: (
        "No implementation of function Function(<built-in function setitem>) found for signature: setitem(array(float32, 1d, C), "
        "Literal[int](0), Literal[str](text))",
        'out[0] = "text"',
        _HELP,
    ),
    opens: ("Unsupported context manager in use", 'with open("a"):', _HELP),
    three: (
        "its parameters are (x, y, out); its operator has (2 arrays)",
        "def three",
        "its parameters are the inputs, then the results, with upper_bound=True `sizes`, then attributes by their names",
    ),
    no_result: (_STATUS, "def no_result", "end it by `return 0`: 0 is success"),
    text: (_STATUS, "def text", "end it by `return 0`: 0 is success"),
}


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda f: f.__name__)
def test_a_function_that_is_no_kernel_is_refused_with_its_line(run: Callable[..., Any], kernel: Callable[..., Any]) -> None:
    reason, line, help = REFUSED[kernel]
    with pytest.raises(relay.ArgumentError) as error:
        run(kernel)
    (found,) = error.value.diagnostics
    assert found.message == f"{NAME}: the kernel {kernel.__name__} cannot be compiled: {reason}"
    assert found.help == help and error.value.code == "argument/kernel"
    assert found.span is not None and found.span.source.name.endswith("test_user_functions.py")
    lines, first = inspect.getsourcelines(kernel)
    row, _ = found.span.source.position(found.span.start)
    assert line in lines[row - first]
    assert "Failed in nopython" not in str(error.value) and len(str(error.value).splitlines()) == 6


class Callable_:
    def __call__(self, x: Any, out: Any) -> int:
        return 0


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (3, "register_op: kernel must be a function, not the int 3"),
        (Callable_(), f"operator '{NAME}': a kernel is a function in Python, not the Callable_"),
        (len, f"operator '{NAME}': a kernel is a function in Python, not the builtin_function_or_method len"),
    ],
)
def test_a_thing_that_is_no_function_is_no_kernel(kernel: Any, message: str) -> None:
    relay.register_shape_func(NAME, [False], lambda inputs, attrs: inputs[0].shape)
    with pytest.raises(relay.ArgumentError) as error:
        relay.register_op(NAME, ["x"], kernel=kernel)
    assert error.value.diagnostics[0].message == message
    relay.register_op(NAME, ["x"], kernel=twice)
    relay.unregister_op(NAME)
    assert not has_own_declarations()


def _without_source() -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec("def hidden(x, out):\n    for i in range(out.shape[0]):\n        out[i] = 2 * x[i]\n    return 0\n", names)
    return names["hidden"]  # type: ignore[no-any-return]


def kernel(x: Any, out: Any) -> int:
    """A name that the text of each kernel has, too."""
    return twice_of(x, out)


@numba.njit
def twice_of(x: Any, out: Any) -> int:
    for i in range(out.shape[0]):
        out[i] = 2 * x[i]
    return 0


@pytest.mark.parametrize("body", [_without_source(), kernel, twice_of, twice], ids=["no source", "kernel", "compiled", "plain"])
def test_other_functions_are_kernels(run: Callable[..., Any], body: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(run(body), [0, 2, 4])
    assert not hasattr(body, "__native__")


def raises(inputs: Any, attrs: Any) -> Any:
    return inputs[0].shape[0] // (1 - 1), 1 / 0


def nothing(inputs: Any, attrs: Any) -> Any:
    return None


def letters(inputs: Any, attrs: Any) -> Any:
    return ("a",)


def one_parameter(inputs: Any) -> Any:
    return inputs[0].shape


@pytest.mark.parametrize(
    ("shape", "line", "reason"),
    [
        (raises, 1, "ZeroDivisionError: division by zero"),
        (nothing, 0, "TypeError: 'NoneType' object is not iterable"),
        (letters, 0, "TypeError: its result is no shape and no tuple of shapes"),
        (one_parameter, 0, "TypeError: one_parameter() takes 1 positional argument but 2 were given"),
    ],
)
def test_a_shape_function_that_fails_is_an_error_of_its_call(
    run: Callable[..., Any], shape: Callable[..., Any], line: int, reason: str
) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        run(twice, shape)
    found = error.value.diagnostics[0]
    place = f"{__file__}:{shape.__code__.co_firstlineno + line}"
    assert found.message == f"{NAME}: its shape function, {place}: {reason}"
    assert found.span is not None and found.span.source.position(found.span.start)[0] == 2


def test_a_shape_function_is_a_function() -> None:
    with pytest.raises(relay.ArgumentError, match="register_shape_func: func must be a function, not the int 3"):
        relay.register_shape_func(NAME, [False], 3)  # type: ignore[arg-type]


# ---- a size that the kernel reports ------------------------------------------------------------------------------------------


def first_rows(x: Any, out: Any, sizes: Any) -> int:
    for i in range(out.shape[0]):
        out[i] = x[i]
    sizes[0] = int(x[0])
    return 0


@pytest.mark.parametrize(
    ("shape", "more", "reason"),
    [
        (lambda n: (result_size(n),), {}, "a result_size needs register_shape_func(..., upper_bound=True)"),
        (lambda n: (n, result_size(n)), {"upper_bound": True}, "a result_size is the first size of a result, alone"),
        (lambda n: (2 * result_size(n),), {"upper_bound": True}, "a result_size is the first size of a result, alone"),
    ],
)
def test_a_reported_size_is_declared_and_the_first(shape: Callable[..., Any], more: dict[str, bool], reason: str) -> None:
    relay.register_shape_func(NAME, False, lambda inputs, attrs: shape(inputs[0].shape[0]), **more)
    relay.register_op(NAME, ["x"], kernel=first_rows)
    try:
        with pytest.raises(relay.TypeCheckError, match=re.escape(reason)):
            relay.compile(TEXT)
    finally:
        relay.unregister_op(NAME)


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_count_beyond_the_bound_is_an_error_of_the_run(device: str) -> None:
    relay.register_shape_func(NAME, False, lambda inputs, attrs: (result_size(inputs[0].shape[0]),), upper_bound=True)
    relay.register_op(NAME, ["x"], kernel=first_rows)
    try:
        vm = relay.VirtualMachine(relay.compile(TEXT, target=device))
        for count in (0, 2, 3):
            assert vm.run(np.array([count, 1, 1], "float32")).shape == (count,)
        for count in (-1, 4):
            beyond = f"a kernel reports the size {count}, which is not from 0 to its upper bound 3"
            with pytest.raises(relay.VMError, match=beyond) as error:
                vm.run(np.array([count, 1, 1], "float32"))
            assert error.value.code == "run/bad-count" and error.value.diagnostics[0].span is not None
        assert vm.run(np.array([1, 1, 1], "float32")).tolist() == [1]
    finally:
        relay.unregister_op(NAME)


@pytest.mark.parametrize("threads", [0, 100, 2048, 32.0])
def test_a_block_has_whole_warps(threads: Any) -> None:
    with pytest.raises(relay.ArgumentError, match="one_block: threads must be a multiple of 32 up to 1024"):
        relay.custom_op.one_block("out[0] = 1;", threads)
