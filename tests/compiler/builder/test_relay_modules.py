"""Relay's modules as modules, and the instrument that times passes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import relayvm as relay
from relayvm.analysis import free_vars
from relayvm.expr import Call
from relayvm.op import add, nn
from relayvm.transform import FoldConstant, InferType, PassTimingInstrument, Sequential

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(f.stem for f in (ROOT / "relay_modules").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_names_of_the_package(name: str) -> None:
    module = import_module(f"relayvm.{name}")
    assert getattr(relay, name) is module and name in relay.__all__ and name in dir(relay)
    assert module.__all__ == sorted(module.__all__) and module.__doc__
    for each in module.__all__:
        assert getattr(module, each) is getattr(relay, each, getattr(module, each)), each
        assert each in dir(module)


def test_the_modules_are_imported_at_their_first_use() -> None:
    program = f"import sys, relayvm; print(*[n for n in {MODULES!r} if 'relayvm.' + n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT.parent)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_names_of_the_modules_work() -> None:
    x = relay.var("x", shape=(2,))
    expr = add(nn.relu(x), relay.const(1.0))
    assert isinstance(expr, Call) and free_vars(expr) == [x]
    assert InferType()(relay.IRModule.from_expr(expr))["main"].body.ty is not None


def test_operators_by_name() -> None:
    x = relay.var("x", shape=(2,))
    op = relay.op.get("nn.relu")
    assert isinstance(op, relay.op.Op) and relay.structural_equal(relay.Call(op, [x]), relay.op.nn.relu(x))
    assert "nn" in dir(relay.op) and relay.op.add is relay.add
    with pytest.raises(KeyError, match=r"there is no operator nn\.rely; did you mean nn\.relu"):
        relay.op.get("nn.rely")
    with pytest.raises(relay.ArgumentError, match="the name must be a str, not the int 3"):
        relay.op.get(3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="adds"):
        _ = relay.op.adds


def test_errors_show_the_users_line() -> None:
    with pytest.raises(relay.ArgumentError) as caught:
        relay.op.get(None)  # type: ignore[arg-type]
    span = caught.value.diagnostics[0].span
    assert span is not None and "test_relay_modules.py" in span.place


# ---- times of passes -------------------------------------------------------------------------------------------------


LINE = r"( *)(\w+): (\d+)us \[(\d+)us\] \((\d+\.\d\d)%; (\d+\.\d\d)%\)"


def test_times_of_passes() -> None:
    mod = relay.IRModule.from_expr(relay.const(1.0) + relay.const(2.0))
    timing = PassTimingInstrument()
    assert timing.render() == ""
    with relay.transform.PassContext(instruments=[timing]):
        Sequential([InferType(), FoldConstant()], name="both")(mod)
        InferType()(mod)
        inside = timing.render()
    assert inside == timing.render()
    rows = [m.groups() for m in re.finditer(LINE + "\n", inside)]
    assert len(rows) == inside.count("\n") == 4
    assert [(len(indent), name) for indent, name, *_ in rows] == [
        (0, "both"), (4, "InferType"), (4, "FoldConstant"), (0, "InferType"),
    ]  # fmt: skip
    total, alone = ([int(row[i]) for row in rows] for i in (2, 3))
    assert total[0] >= total[1] + total[2] and alone[0] <= total[0] and alone[1] == total[1]
    share = [float(row[4]) for row in rows]
    assert share[0] + share[3] == pytest.approx(100, abs=0.02) and share[0] == float(rows[0][5])
    assert float(rows[1][5]) >= share[1]


def test_a_new_context_clears_the_times_and_failed_passes_have_none() -> None:
    mod = relay.IRModule.from_expr(relay.const(1.0))
    timing = PassTimingInstrument()

    @relay.transform.module_pass(opt_level=0)
    def fails(mod, ctx):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError), relay.transform.PassContext(instruments=[timing]):
        Sequential([fails])(mod)
    assert [line.split()[:2] for line in timing.render().splitlines()] == [["sequential:", "0us"], ["fails:", "0us"]]
    with relay.transform.PassContext(instruments=[timing]):
        InferType()(mod)
    assert len(timing.render().splitlines()) == 1


def test_taking_a_module_apart() -> None:
    x = relay.var("x", "float32")
    mod = relay.parse('#[version = "0.0.5"]\ntype L[A] { C(A, L[A]), N }\ndef @main(%x: float32) { exp(%x) }')
    (name, function), (header, data) = mod.functions.items()[0], mod.type_definitions.items()[0]
    assert name.name_hint == "main" and function is mod["main"] and header.name_hint == "L" and data is mod[data.header]
    for var, each in mod.functions.items():
        mod.update_func(relay.GlobalVar(var.name_hint), relay.Function(each.params, relay.negative(each.body)))
    mod["other"] = relay.Function([x], x)
    assert [str(f.body.op.name) for f in mod.functions.values() if isinstance(f.body, Call)] == ["negative"]
    assert [var.name_hint for var in mod.functions] == [g.name_hint for g in mod.get_global_vars()] == ["main", "other"]


def test_texts_of_expressions_end_with_the_expression() -> None:
    version = '#[version = "0.0.5"]\n'
    assert relay.const(42, "int16").astext() == version + "42i16" and relay.op.get("nn.dense").astext() == version + "nn.dense"
    assert relay.IRModule.from_expr(relay.const(1)).astext().endswith("}\n")
    vector = relay.const([1.0, 2.0])
    assert relay.parse_expr(vector.astext()).data.numpy().tolist() == [1, 2]
