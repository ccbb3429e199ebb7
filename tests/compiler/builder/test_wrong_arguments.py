"""A public function accepts its arguments, or raises an error of relayvm with the line of the call, for any arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32]) { %x }\n'
X = relay.var("x", (relay.Any(), 4))
F = relay.Function([X], X)
MODULE = relay.parse(TEXT)
#: Values of every kind; each stands once for an argument that is given alone, and beside each other.
JUNK: tuple[Any, ...] = (
    None, True, -1, 1.5, float("nan"), 1 << 70, "?!", "no.relay", b"x", [1, 2], [None], {1: 2}, {"a": None}, object(), int,
    np.ones(2), np.array("x"), Path("none.relay"), X, F, MODULE, relay.TensorType((2,)), relay.Any(),
)  # fmt: skip
#: Names whose objects relayvm makes itself, base classes without arguments, enumerations.
MADE_HERE = {
    "Comparison", "Diagnostic", "Executable", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor", "Pattern", "Profile",
    "ShapeError", "Tensor", "TypeFunctor", "TypeKind", "TypeMutator", "TypeVisitor",
}  # fmt: skip
#: The number of arguments that are tried of each function, if not one; of three and more the first and last are a few only.
COUNTS = {
    **dict.fromkeys(["Any", "PatternWildcard", "ScopeBuilder", "SpanCheck", "get_num_threads", "num_threads"], ()),
    **dict.fromkeys(["Constructor", "If", "Let", "TypeData"], (3,)),
    "Span": (5,),
    **dict.fromkeys(
        [
            "Call",
            "Clause",
            "FuncType",
            "Function",
            "Match",
            "RefWrite",
            "TupleGetItem",
            "TupleWrapper",
            "TypeCall",
            "assert_structural_equal",
            "bind",
            "register_op",
            "show",
            "structural_equal",
        ],
        (2,),
    ),
    **dict.fromkeys(
        [
            "TensorType",
            "Var",
            "VirtualMachine",
            "astext",
            "compile",
            "const",
            "parse",
            "parse_expr",
            "register_shape_func",
            "var",
        ],
        (1, 2),
    ),
}


def public() -> list[str]:
    errors = {n for n in relay.__all__ if isinstance(getattr(relay, n), type) and issubclass(getattr(relay, n), Exception)}
    return [n for n in relay.__all__ if n not in MADE_HERE | errors and callable(getattr(relay, n))]


def takes_or_refuses(call: Callable[..., Any], *args: Any, **named: Any) -> None:
    try:
        call(*args, **named)
    except relay.RelayError as error:
        assert str(error), "an error has words"
        if isinstance(error, relay.ArgumentError):
            span = error.diagnostics[0].span
            assert span is not None and span.place.partition(":")[0].endswith("test_wrong_arguments.py"), error


@pytest.fixture(autouse=True)
def same_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Threads and registered functions as they were."""
    monkeypatch.chdir(tmp_path)
    yield
    relay.set_num_threads(None)


@pytest.mark.parametrize("name", public())
def test_function(name: str) -> None:
    for count in COUNTS.get(name, (1,)):
        few = (X, None, 1.5, [1])
        kinds = (JUNK,) if count == 1 else ((*JUNK, [X]), JUNK) if count == 2 else (few, JUNK, *[few] * (count - 2))
        for given in itertools.product(*kinds):
            takes_or_refuses(getattr(relay, name), *given)


def test_methods_and_named_arguments() -> None:
    executable = relay.compile(MODULE)
    machine = relay.VirtualMachine(executable)
    array = np.ones((2, 4), "float32")
    profile = machine.profile(array, repeat=1, warmup=0)
    calls: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
        (lambda **n: relay.compile(MODULE, **n), ("target", "params", "fuse", "tune", "opt_level", "tune_sizes", "tune_seconds")),
        (lambda **n: relay.VirtualMachine(executable, **n), ("device",)),
        (lambda **n: machine.profile(array, **n), ("collectors",)),
        (lambda **n: machine.profile(array, repeat=1, **n), ("warmup",)),
        (lambda repeat: machine.profile(array, repeat=min(repeat, 2) if type(repeat) is int else repeat), ("repeat",)),
        (executable.explain, ("shapes", "dims", "entry")),
        (executable.function_index, ("name",)),
        (executable.save, ("path",)),
        (relay.Executable.load, ("path",)),
        (profile.view, ("name",)),
        (profile.per_run, ("counter",)),
        (profile.total, ("kind",)),
        (relay.Profile.from_json, ("text",)),
        (relay.Profile.from_data, ("data",)),
        (machine.__getitem__, ("name",)),
        (MODULE.__getitem__, ("name",)),
        (relay.IRModule.from_expr, ("expr",)),
        (lambda **n: relay.var("x", (2,), **n), ("dtype", "type_annotation")),
        (lambda **n: relay.const(1, **n), ("dtype",)),
        (lambda **n: relay.Function([X], X, **n), ("ret_type", "attrs")),
        (lambda **n: relay.sum(X, **n), ("axis", "keepdims")),
        (lambda **n: relay.compare(MODULE, dims={"n": 1}, repeat=1, **n), ("a", "device", "entry", "shapes", "seed")),
        (lambda other: X + other, ("other",)),
    ]  # fmt: skip
    for call, names in calls:
        for name, value in itertools.product(names, JUNK):
            if (name, type(value)) == ("warmup", int) and value > 2:
                continue
            if name == "seed" and value is not None and type(value) is not str:
                continue
            try:
                positional = name in ("path", "name", "counter", "kind", "text", "data", "expr", "other", "repeat")
                takes_or_refuses(call, *([value] if positional else []), **({} if positional else {name: value}))
            except TypeError as error:
                # Python's own answer to an operand that an operator does not know
                assert name == "other", (name, value, error)


def test_a_path_is_a_program(tmp_path: Path) -> None:
    path = tmp_path / "p.relay"
    path.write_text(TEXT)
    assert relay.structural_equal(relay.parse(path), relay.parse(TEXT))
    assert relay.compile(path).functions[0].name == "main"
    for text in ("p.relay", "x.rvm", "folder/none.relay"):
        with pytest.raises(relay.ParseError, match="is the name of a file"):
            relay.parse(text)
    (tmp_path / "program").write_text(TEXT)
    with pytest.raises(relay.ParseError, match="is the name of a file"):
        relay.compile("program")
    with pytest.raises(relay.ParseError, match="version line is missing"):
        relay.compile("programs")


def test_what_people_write_is_taken() -> None:
    both = relay.TupleGetItem([X, 1.5], 0)
    assert isinstance(both, relay.TupleGetItem) and isinstance(both.tuple_value, relay.Tuple)
    assert isinstance(relay.If(True, X, X).cond, relay.Constant)
    assert relay.Constant([1, 2]).data.dtype == "int32"
    assert relay.TensorType((2, 3)) == relay.TensorType.of((2, 3), "float32")
    assert str(relay.TupleType([relay.TensorType(()), relay.FuncType([], relay.TensorType((1,)))])) == (
        "(float32, fn () -> Tensor[(1), float32])"
    )


def test_the_old_classes_still_catch() -> None:
    for kind in (relay.RelayError, TypeError, ValueError):
        with pytest.raises(kind):
            relay.var("x", (-1,))
    with pytest.raises(KeyError):
        MODULE["f"]
