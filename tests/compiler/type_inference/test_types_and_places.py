"""Relay's names for kinds, incomplete types, visitors of types, and places of expressions."""

from __future__ import annotations

import pytest

import relayvm as relay

TypeKind = relay.TypeKind
A, LIST = relay.TypeVar("A"), relay.GlobalTypeVar("List")


def with_lists() -> relay.IRModule:
    mod = relay.IRModule()
    relay.Prelude(mod)
    return mod


# ---- kinds -------------------------------------------------------------------------------------------------------


def test_kinds() -> None:
    mod, check = with_lists(), relay.analysis.check_kind
    number = relay.scalar_type("int32")
    assert check(A) is check(number) is check(relay.FuncType([A], relay.RefType(number))) is TypeKind.Type
    assert check(relay.TypeCall(LIST, [relay.TupleType([A])]), mod) is TypeKind.Type
    assert check(relay.ShapeVar("n")) is check(relay.TypeVar("n", TypeKind.ShapeVar)) is TypeKind.ShapeVar
    assert check(LIST, mod) is TypeKind.AdtHandle == 5 and LIST.kind is TypeKind.AdtHandle
    assert check(mod[LIST], mod) is TypeKind.TypeData and check(relay.IncompleteType(TypeKind.ShapeVar)) is TypeKind.ShapeVar
    assert check(relay.TupleType([relay.GlobalTypeVar("nat")]), nat_module()) is TypeKind.Type


def nat_module() -> relay.IRModule:
    mod = relay.IRModule()
    mod.import_from_std("nat.rly")
    return mod


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (lambda: relay.TupleType([LIST]), "List in the type (List,) is of kind AdtHandle, where a type of kind Type must be"),
        (lambda: relay.TypeCall(LIST, [A, A]), "List takes 1 type arguments, not 2: List[A, A]"),
        (lambda: relay.GlobalTypeVar("Lst"), "the module has no type Lst; did you mean List?"),
        (
            lambda: relay.TypeData(h := relay.GlobalTypeVar("Box"), [], [relay.Constructor("Full", [LIST], h)]),
            "List in the definition of Box is of kind AdtHandle",
        ),
    ],
)
def test_kinds_that_do_not_fit(check, text: str) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        relay.analysis.check_kind(check(), with_lists())
    assert text in str(error.value) and "test_types_and_places.py" in str(error.value)


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: relay.analysis.check_kind(3), "check_kind: the type must be a type, not the int 3"),
        (lambda: relay.analysis.check_kind(A, 3), "check_kind: the module must be an IRModule, not the int 3"),
        (lambda: relay.RefType(relay.ShapeVar("n")), "help: n is a size: relay.TensorType((n, 4)) is a type"),
        (lambda: relay.TupleType([relay.IncompleteType()]), "a field must be a complete type, not an IncompleteType"),
        (lambda: relay.TypeVar("A", TypeKind.TypeData), "must be relay.TypeKind.Type or relay.TypeKind.ShapeVar, not a TypeKind"),
        (lambda: relay.Function([], 1, None, [relay.ShapeVar("n")]), "must be a relay.TypeVar of the kind Type, not a TypeVar"),
        (lambda: relay.ShapeVar("n 1"), "ShapeVar: the name must be letters, digits and underlines, not the str 'n 1'"),
    ],
)  # fmt: skip
def test_wrong_types(fails, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)


def test_sizes_have_names() -> None:
    parsed = relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32], %y: Tensor[(?n), int64]) { (%x, %y) }')
    for size in (relay.ShapeVar("n"), relay.Any("n"), "n", "?n"):
        x, y = relay.var("x", (size, 4)), relay.var("y", relay.TensorType([size], "int64"))
        assert relay.structural_equal(relay.IRModule.from_expr(relay.Function([x, y], relay.Tuple([x, y]))), parsed)


def test_an_incomplete_type_is_inferred() -> None:
    x, y = relay.var("x", (2, 3)), relay.var("y", relay.IncompleteType())
    function = relay.Function([x, y], relay.add(x, y), relay.IncompleteType())
    assert y.type_annotation is None and function.ret_type is None and str(relay.IncompleteType()) == "_"
    assert str(relay.transform.InferTypeLocal(relay.Function([x], relay.exp(x))).result) == "Tensor[(2, 3), float32]"


# ---- visitors of types -------------------------------------------------------------------------------------------


class Names(relay.TypeVisitor):
    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_type_var(self, tv):
        self.found.append(tv.name_hint)

    def visit_global_type_var(self, gtv):
        self.found.append(gtv.name_hint)

    def visit_tensor_type(self, tt):
        self.found.append(tt.dtype)


class Widen(relay.TypeMutator):
    def visit_tensor_type(self, tt):
        return relay.TensorType(tt.shape, "float64")


def test_visitors_of_types() -> None:
    number = relay.scalar_type("int8")
    whole = relay.FuncType([relay.TypeCall(LIST, [A]), relay.RefType(number)], relay.TupleType([number, A]))
    names = Names()
    names.visit(whole)
    assert names.found == ["List", "A", "int8", "int8", "A"]
    assert str(Widen().visit(whole)) == "fn (List[A], ref(float64)) -> (float64, A)"
    assert relay.TypeMutator().visit(whole) == whole and isinstance(names, relay.type_functor.TypeFunctor)
    data = with_lists()[LIST]
    names.found.clear()
    names.visit(data)
    assert names.found == ["List", "A", "A", "List", "A"]
    assert [c.inputs for c in Widen().visit(data).constructors] == [c.inputs for c in data.constructors]
    with pytest.raises(relay.ArgumentError, match=r"Names\.visit: the argument must be a type, not the int 3"):
        names.visit(3)


# ---- places ------------------------------------------------------------------------------------------------------


def test_a_span_of_a_source_without_text() -> None:
    span = relay.Span(relay.SourceName("model.py"), 3, 4, 5, 9)
    assert (span.source_name.name, span.line, span.end_line, span.column, span.end_column) == ("model.py", 3, 4, 5, 9)
    assert isinstance(span, relay.Span) and span.place == "model.py:3:5"
    both = relay.SequentialSpan([span, relay.SequentialSpan([relay.Span(relay.SourceName("b"), 0, 0, 0, 0)])])
    assert [each.place for each in both.spans] == ["model.py:3:5", "b:1:1"] and isinstance(both, relay.Span)


def test_errors_show_every_place_of_an_expression() -> None:
    source = relay.parse_expr("add(1f,\n  2f)").span.source
    spans = [relay.Span(source, 2, 2, 3, 5), relay.Span(relay.SourceName("model.py"), 7, 7, 1, 2)]
    x, y = relay.Var("x", relay.TensorType((2,)), spans[0]), relay.var("y", (3,))
    call = relay.Call(relay.op.get("add"), [x, y], None, None, relay.SequentialSpan(spans))
    with pytest.raises(relay.TypeCheckError) as error:
        relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, y], call)))
    assert " --> <string>:2:3\n  |\n2 |   2f)\n  |   ^^\n --> model.py:7:1\nnote: " in str(error.value)


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: relay.SourceName(3), "SourceName: the name must be a str, not the int 3"),
        (lambda: relay.Span("f", 1, 1, 1, 1), "Span: the source must be a relay.SourceName, not the str 'f'"),
        (lambda: relay.Span(relay.SourceName("f"), 2, 1, 1, 1), "Span: the end is before the start"),
        (lambda: relay.Span(relay.parse_expr("1f").span.source, 9, 9, 1, 1), "has no column 1 in line 9"),
        (lambda: relay.SequentialSpan([]), "SequentialSpan: there is no span"),
        (lambda: relay.SequentialSpan([3]), "SequentialSpan: a span must be a relay.Span, not the int 3"),
    ],
)  # fmt: skip
def test_wrong_places(fails, text: str) -> None:
    with pytest.raises(relay.ArgumentError) as error:
        fails()
    assert text in str(error.value)


def test_span_check() -> None:
    mod = relay.parse('#[version = "0.0.5"]\ndef @main(%x: float32) { exp(%x) }')
    assert relay.SpanCheck()(mod) is mod
    f = mod["main"]
    placeless = relay.IRModule({"main": type(f)(f.params, type(f.body)(f.body.op, f.body.args, f.body.attrs), span=f.span)})
    with pytest.raises(relay.ArgumentError, match="SpanCheck: @main has expressions without a place: Call"):
        relay.SpanCheck()(placeless)
    assert relay.SpanCheck()(relay.transform.AnnotateSpans()(placeless))
