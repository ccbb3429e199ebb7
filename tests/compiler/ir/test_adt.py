"""Algebraic data types, matches, references and type parameters: in the text, in Python, and at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.bytecode.executable_file import load_bytes, to_bytes

from ...devices import DEVICES

LIST = "type List[A] { Cons(A, List[A]), Nil }\ntype Option[A] { Some(A), None }\ntype Color { Red, Green, Blue }\n"


def module(text: str) -> relay.IRModule:
    """The module of a text, which prints and parses back."""
    mod = relay.parse(f'#[version = "0.0.5"]\n{text}\n')
    printed = mod.astext()
    again = relay.parse(printed)
    assert relay.structural_equal(mod, again) and again.astext() == printed
    return mod


def plain(value: Any) -> Any:
    """A result as tuples and numbers; a constructor is the first item of its tuple."""
    if isinstance(value, relay.ADT):
        return (value.constructor, *map(plain, value))
    return tuple(map(plain, value)) if isinstance(value, tuple) else value.numpy().tolist()


def result(mod: relay.IRModule, *args: Any, target: str = "cpu", **options: Any) -> Any:
    exe = relay.compile(mod, target=target, **options)
    loaded = load_bytes(to_bytes(exe), "test.rvm", relay.Executable)
    return plain(relay.VirtualMachine(loaded).run(*args))


def refused(text: str) -> str:
    """The message for a program that is refused."""
    with pytest.raises((relay.ParseError, relay.TypeCheckError)) as error:
        relay.compile(module(LIST + text))
    return str(error.value)


def linked(*items: Any) -> Any:
    made: Any = ("Nil",)
    for item in reversed(items):
        made = ("Cons", item, made)
    return made


#: Expressions over a list ``%l`` of 1, 2 and 3, and their values.
PRELUDE = {
    "@id(3)": 3,
    "@compose(fn(%a: int32) { %a - 1 }, fn(%a: int32) { %a * 5 })(2)": 9,
    "@flip(fn(%a: int32, %b: int32) { %a - %b })(1, 2)": 1,
    "@hd(%l)": 1,
    "@tl(%l)": linked(2, 3),
    "@nth(%l, 2)": 3,
    "@length(%l)": 3,
    "@update(%l, 1, 7)": linked(1, 7, 3),
    "@map(fn(%x) { %x * 2 }, %l)": linked(2, 4, 6),
    "@foldl(fn(%a, %x) { %a * 10 + %x }, 0, %l)": 123,
    "@foldr(fn(%x, %a) { %a * 10 + %x }, 0, %l)": 321,
    "@foldr1(fn(%x, %a) { %a * 10 + %x }, %l)": 321,
    "@sum(%l)": 6,
    "@concat(%l, %l)": linked(1, 2, 3, 1, 2, 3),
    "@filter(fn(%x) { %x > 1 }, %l)": linked(2, 3),
    "@zip(%l, @tl(%l))": linked((1, 2), (2, 3)),
    "@rev(%l)": linked(3, 2, 1),
    "@map_accumr(fn(%s, %x) { (%s + %x, %s * %x) }, 1, %l)": (7, linked(6, 8, 3)),
    "@map_accuml(fn(%s, %x) { (%s + %x, %s * %x) }, 1, %l)": (7, linked(1, 4, 12)),
    "@unfoldr(fn(%n: int32) { if (%n == 0) { None } else { Some((%n - 1, %n)) } }, 3)": linked(3, 2, 1),
    "@unfoldl(fn(%n: int32) { if (%n == 0) { None } else { Some((%n - 1, %n)) } }, 3)": linked(1, 2, 3),
    "@size(Rose(1, Cons(Rose(2, Nil), Nil)))": 2,
    "@tmap(fn(%x) { %x + 1 }, Rose(1, Cons(Rose(2, Nil), Nil)))": ("Rose", 2, linked(("Rose", 3, linked()))),
    "@iterate(fn(%x: int32) { %x * 2 }, 5)(1)": 32,
    "@map(@id, %l)": linked(1, 2, 3),
    "@foldr(Cons, Nil, %l)": linked(1, 2, 3),
}


def test_every_function_of_the_prelude_is_tested() -> None:
    mod = relay.IRModule()
    mod.import_from_std("prelude.rly")
    assert {name for name in mod.functions if all(f"@{name}(" not in e for e in PRELUDE)} <= {"unfold_onto"}


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_the_prelude(target: str, opt_level: int) -> None:
    mod = relay.IRModule()
    mod.import_from_std("prelude.rly")
    mod = module(
        f"{mod.astext().partition(']')[2]}def @main() {{ let %l = Cons(1, Cons(2, Cons(3, Nil))); ({', '.join(PRELUDE)}) }}"
    )
    assert result(mod, target=target, opt_level=opt_level) == tuple(PRELUDE.values())


def test_natural_numbers() -> None:
    mod = relay.IRModule()
    mod.import_from_std("nat.rly")
    body = """def @main() {
      let %two = s(s(z));
      let %l = Cons(1, Cons(2, Cons(3, Nil)));
      (@nat_add(%two, @nat_double(s(z))), @nat_nth(%l, %two), @nat_update(%l, %two, 7), @nat_iterate(fn (%x) { %x * 3 }, %two)(5))
    }"""
    assert result(module(mod.astext().partition("]")[2] + body)) == (
        ("s", ("s", ("s", ("s", ("z",))))),
        3,
        linked(1, 2, 7),
        45,
    )


CELLS = """def @main(%x: Tensor[(2), float32]) {
  let %mul = fn (%a: Tensor[(2), float32], %b: Tensor[(2), float32]) { %a * %b };
  let %add = fn (%a: Tensor[(2), float32], %b: Tensor[(2), float32]) { %a + %b };
  let %one: GradCell[Tensor[(2), float32]] = One(fn () { ones(shape=[2], dtype="float32") });
  let %zero: GradCell[Tensor[(2), float32]] = Zero(fn () { zeros(shape=[2], dtype="float32") });
  let %sum = @AddGradCell(%add, %one, @AddGradCell(%add, %zero, Raw(%x)));
  let %none = @MultiplyGradCell(%mul, %sum, %zero);
  (@FromGradCell(%sum), @FromGradCell(@MultiplyGradCell(%mul, @MultiplyGradCell(%mul, %one, %sum), %sum)),
   @FromGradCell(%none), match (%none) { Zero(_) => True, _ => False },
   match (@AddGradCell(%add, %zero, %one)) { One(_) => True, _ => False })
}"""


def test_cells_of_gradients() -> None:
    mod = relay.IRModule()
    mod.import_from_std("gradient.rly")
    mod = module(mod.astext().partition("]")[2] + CELLS)
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and len(mod["AddGradCell"].type_params) == 1
    typed = relay.transform.InferType()(mod)
    assert relay.structural_equal(relay.parse(typed.astext()), typed) and len(typed["AddGradCell"].type_params) == 1
    for kind in ("debug", "vm"):
        found = relay.create_executor(kind, mod).evaluate()([1.0, 4.0])
        assert [x.numpy().tolist() for x in found] == [[2, 5], [4, 25], [0, 0], True, True]


def test_files_of_the_standard_library() -> None:
    mod = relay.IRModule()
    mod.import_from_std("core.rly")
    mod.import_from_std("prelude.rly")
    assert not mod.type_definitions["Storage"].constructors and relay.structural_equal(relay.parse(mod.astext()), mod)
    before = dict(mod.functions)
    mod.import_from_std("prelude.rly")
    assert mod.functions == before
    with pytest.raises(relay.ArgumentError, match=r"the standard library has no prelud.rly; did you mean prelude.rly\?"):
        mod.import_from_std("prelud.rly")


MATCHES = {
    "constructors": ("%c: Color", "match (%c) { Red => 1, Green => 2, Blue => 3 }"),
    "wildcard": ("%c: Color", "match (%c) { Green => 2, _ => 9 }"),
    "variable": ("%c: Color", "match (%c) { Green => Red, %other => %other }"),
    "nested": ("%l: List[Color]", "match (%l) { Cons(Red, Cons(_, %t)) => %t, Cons(_, %t) => %t, Nil => Nil }"),
    "tuple": ("%l: List[Color]", "match ((%l, 1)) { (Nil, %n) => %n, (Cons(Blue, _), %n) => %n + 1, (_, %n) => %n + 2 }"),
    "tuple only": ("%l: List[Color]", "match ((%l, 1)) { (%a, %n) => (%n, %a) }"),
    "partial": ("%l: List[Color]", "match? (%l) { Cons(%h, _) => %h }"),
    "annotated": ("%l: List[Color]", "match? (%l) { Cons(%h: Color, _) => %h }"),
    "both": ("%l: List[Color]", "match ((%l, %l)) { (Cons(%a, _), Cons(%b, _)) => Some((%a, %b)), (_, _) => None }"),
}


def colors(*names: str) -> Any:
    made = relay.ADT("Nil")
    for name in reversed(names):
        made = relay.ADT("Cons", (relay.ADT(name), made))
    return made


EXPECTED = {
    "nested": [linked(), linked(("Blue",)), linked(("Green",))],
    "tuple": [1, 3, 2],
    "tuple only": [(1, linked()), (1, linked(("Red",), ("Blue",), ("Blue",))), (1, linked(("Blue",), ("Green",)))],
    "both": [("None",), ("Some", (("Red",), ("Red",))), ("Some", (("Blue",), ("Blue",)))],
}


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("form", EXPECTED)
def test_matches_of_lists(form: str, target: str) -> None:
    params, body = MATCHES[form]
    mod = module(f"{LIST}def @main({params}) {{ {body} }}")
    vm = relay.VirtualMachine(relay.compile(mod, target=target))
    given = [colors(), colors("Red", "Blue", "Blue"), colors("Blue", "Green")]
    if form == "nested":
        given[2] = colors("Blue", "Green")
    assert [plain(vm.run(value)) for value in given] == EXPECTED[form]


def test_matches_of_constructors_without_fields() -> None:
    for form, wanted in {
        "constructors": [1, 2, 3],
        "wildcard": [9, 2, 9],
        "variable": [("Red",), ("Red",), ("Blue",)],
    }.items():
        params, body = MATCHES[form]
        vm = relay.VirtualMachine(relay.compile(module(f"{LIST}def @main({params}) {{ {body} }}")))
        values = [relay.ADT(name) for name in ("Red", "Green", "Blue")]
        assert [plain(vm.run(value)) for value in values] == wanted


def test_no_clause_applies() -> None:
    for form in ("partial", "annotated"):
        params, body = MATCHES[form]
        vm = relay.VirtualMachine(relay.compile(module(f"{LIST}def @main({params}) {{ {body} }}")))
        assert plain(vm.run(colors("Blue"))) == ("Blue",)
        with pytest.raises(relay.VMError, match="no case matches"):
            vm.run(colors())
        assert plain(vm.run(colors("Blue"))) == ("Blue",)


@pytest.mark.parametrize("target", DEVICES)
def test_tensors_of_many_sizes_in_one_list(target: str) -> None:
    mod = module(
        LIST
        + """
def @total(%l: List[Tensor[(?), float32]]) -> float32 {
  match (%l) { Cons(%x, %rest) => sum(%x) + @total(%rest), Nil => 0f }
}
def @main(%x: Tensor[(?), float32]) { @total(Cons(%x, Cons(concatenate((%x, %x)), Cons(%x * 2f, Nil)))) }"""
    )
    assert result(mod, np.ones(3, "float32"), target=target) == 15.0


@pytest.mark.parametrize("target", DEVICES)
def test_references(target: str) -> None:
    mod = module("""
def @add_to(%r: ref(Tensor[(?), float32]), %x: Tensor[(?), float32]) -> () { ref_write(%r, concatenate((ref_read(%r), %x))) }
def @main(%x: Tensor[(?), float32]) {
  let %r = ref(%x);
  let %before = ref_read(%r);
  @add_to(%r, %x * 2f);
  @add_to(%r, %x * 3f);
  let %count = ref(0);
  let %next = fn () { ref_write(%count, ref_read(%count) + 1); ref_read(%count) };
  (%before, ref_read(%r), %next(), %next())
}""")
    wanted = ([1.0, 2.0], [1.0, 2.0, 2.0, 4.0, 3.0, 6.0], 1, 2)
    assert result(mod, np.array([1, 2], "float32"), target=target) == wanted


def test_explicit_type_arguments_and_polymorphic_functions_at_two_types() -> None:
    mod = module(
        LIST
        + """
def @empty[A](%x: A) -> List[A] { Nil }
def @pair[A, B](%a: A, %b: B) -> (A, B) { (%a, %b) }
def @main() { (@pair(1, 2f), @pair((1, 2), Red), Cons(1f, @empty[float32](2f)), @pair[int32, List[Color]](1, Nil)) }"""
    )
    assert result(mod) == ((1, 2.0), ((1, 2), ("Red",)), linked(1.0), (1, linked()))


def test_an_inner_polymorphic_function_at_several_types() -> None:
    mod = module(
        LIST
        + """
def @main(%n: int32) {
  let %pair = fn [A](%x: A) -> (A, int32) { let %twice = fn [B](%y: B) -> (B, B) { (%y, %y) }; (%x, %twice(%n).1) };
  let %count = fn [A](%l: List[A]) -> int32 { match (%l) { Cons(_, %rest) => 1 + %count(%rest), Nil => %n } };
  (%pair(1f), %pair(True), %count(Cons(1f, Nil)), %count(Cons(Red, Cons(Blue, Nil))))
}"""
    )
    for opt_level in (0, 3):
        assert result(mod, np.int32(5), opt_level=opt_level) == ((1.0, 5), (True, 5), 6, 7)


def test_a_function_of_any_size_is_read_from_a_reference() -> None:
    mod = module("""
def @call(%f: fn(Tensor[(?), int32]) -> int32, %x: Tensor[(?), int32]) -> int32 { %f(%x) }
def @id[A](%x: A) -> A { %x }
def @update[A](%r: ref(A), %f: fn(A) -> A) -> A { ref_write(%r, %f(ref_read(%r))); ref_read(%r) }
def @main(%x: Tensor[(?), int32]) {
  let %r = ref((fn (%v: Tensor[(?), int32]) -> int32 { sum(%v) }, %x));
  let %g = @update(ref(ref_read(%r).0), @id);
  (@call(ref_read(%r).0, %x), %g(ref_read(%r).1))
}""")
    x = np.array([3, 4, 5], "int32")
    assert result(mod, x) == plain(relay.create_executor("debug", mod).evaluate()(x)) == (12, 12)


BODIES = [("[1, 2]", "concatenate((%v, %v))"), ("[1, 2]", "%x"), ("%v", "[1, 2]"), ("add(%v, %x)", "%v"), ("%x", "%v")]


@pytest.mark.parametrize("bodies", BODIES)
def test_functions_that_return_other_sizes_meet(bodies: tuple[str, str]) -> None:
    first, second = (f"fn (%v: Tensor[(?), int32]) -> Tensor[(?), int32] {{ {body} }}" for body in bodies)
    mod = module(f"""def @main(%b: bool, %x: Tensor[(?), int32]) {{
      let %f = if (%b) {{ {first} }} else {{ {second} }};
      (%f(%x), %f([4]))
    }}""")
    vm, x = relay.VirtualMachine(relay.compile(mod)), np.array([3, 4, 5], "int32")
    for b in (True, False):
        assert plain(vm.run(b, x)) == plain(relay.create_executor("debug", mod).evaluate()(b, x))


def test_a_function_that_needs_infinitely_many_types_is_refused() -> None:
    text = """
def @grow[A](%x: A, %n: int32) -> int32 { if (%n == 0) { 0 } else { @grow(Some(%x), %n - 1) } }
def @main(%n: int32) -> int32 { @grow(1, %n) }"""
    assert "the type of Some here is too large" in refused(text)


MISTAKES = {
    "def @main(%c: Color) { match (%c) { Red => 1, Blue => 2 } }": "the match does not cover every value: Green has no clause",
    "def @main(%l: List[Color]) { match (%l) { Nil => 1, Cons(Red, _) => 2 } }": (
        "the match does not cover every value: Cons(Green, _) has no clause"
    ),
    "def @main(%c: Color) { match (%c) { Cons(_, _) => 1, _ => 2 } }": "Cons does not make Color",
    "def @main(%c: Color) { match (%c) { (_, _) => 1, _ => 2 } }": "a pattern of 2 fields does not fit Color",
    "def @main(%c: Color) { match (%c) { Rot => 1, _ => 2 } }": "there is no constructor Rot",
    "def @main(%l: List[Color]) { match (%l) { Cons(_) => 1, _ => 2 } }": "Cons has 2 fields, the pattern 1",
    "def @main(%l: List[Color]) { match (%l) { Cons(%a, %a) => 1, _ => 2 } }": "a second variable %a in one pattern",
    "def @main() { Cons(1, Cons(2f, Nil)) }": "argument 1 of Cons must be",
    "def @main() { Cons(1) }": "Cons takes 2 arguments, 1 given",
    "def @main(%l: List) { %l }": "the type List takes 1 type argument, 0 given",
    "def @main(%l: Lists[Color]) { %l }": "there is no type Lists; did you mean List?",
    "type Color { Cyan }\ndef @main() { 1 }": "the type Color is defined twice",
    "type Other { Red }\ndef @main() { 1 }": "the constructor Red is defined twice",
    "def @main() { ref_read(1) }": "only a reference is read and written, not int32",
    "def @main() { ref(1, 2) }": "ref takes 1 argument, 2 given",
    "def @main() { ref_write(ref(1), 2f) }": "argument 1 of ref_write must be int32, not float32",
    "def @main() { @main[int32] }": "type arguments stand before the arguments of a call",
    "def @f[A, A](%x: A) -> A { %x }\ndef @main() { 1 }": "a second type parameter A",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text: str) -> None:
    assert MISTAKES[text] in refused(text)


def test_arguments() -> None:
    mod = module(f"{LIST}def @main(%l: List[(Tensor[(?), float32], Color)]) {{ %l }}")
    vm = relay.VirtualMachine(relay.compile(mod))
    one = relay.ADT("Cons", ((np.ones(2, "float32"), relay.ADT("Blue")), relay.ADT("Nil")))
    assert plain(vm.run(one)) == ("Cons", ([1.0, 1.0], ("Blue",)), ("Nil",))
    assert plain(vm.run(vm.run(one))) == plain(vm.run(one))
    assert repr(relay.ADT("Cons", (1, relay.ADT("Nil")))) == "Cons(1, Nil)"
    for wrong, message in {
        1: "@main: %l takes a List[(Tensor[(?), float32], Color)], not int",
        relay.ADT("Con"): "has no constructor Con",
        relay.ADT("Cons"): "Cons has 2 fields, 0 were given",
        relay.ADT("Cons", ((np.ones(2), relay.ADT("Blue")), relay.ADT("Nil"))): "has dtype float64, not float32",
    }.items():
        with pytest.raises(relay.InputError) as error:
            vm.run(wrong)
        assert message in str(error.value)
    assert vm.memory["live_objects"] <= 4


def test_a_deep_value_goes_in_and_out() -> None:
    mod = module(f"{LIST}def @main(%l: List[int32]) {{ %l }}")
    vm = relay.VirtualMachine(relay.compile(mod))
    deep = relay.ADT("Nil")
    for number in range(3_000):
        deep = relay.ADT("Cons", (np.int32(number), deep))
    vm.run(deep)
    before = vm.memory["live_objects"]
    out, count = vm.run(deep), 0
    while out.constructor == "Cons":
        assert out[0].numpy() == 2_999 - count
        out, count = out[1], count + 1
    assert count == 3_000 and "..." in repr(deep)
    assert vm.memory["live_objects"] == before


def test_a_value_that_is_deep_through_tuples_goes_in_and_out() -> None:
    mod = module("type Path { Step((Path, int32)), End }\ndef @main(%p: Path) { (%p, 1) }")
    vm = relay.VirtualMachine(relay.compile(mod))
    deep = relay.ADT("End")
    for _ in range(5000):
        deep = relay.ADT("Step", ((deep, 1),))
    out, count = vm.run(deep)[0], 0
    while out.constructor == "Step":
        out, count = out[0][0], count + 1
    assert count == 5000
    with pytest.raises(relay.VMError, match="takes 2 values in a tuple, not 1 values"):
        vm.run(relay.ADT("Step", ((deep,),)))


# ---- in Python -------------------------------------------------------------------------------------------------------


def test_a_program_in_python() -> None:
    mod = relay.IRModule()
    a, lst = relay.TypeVar("a"), relay.GlobalTypeVar("Lst")
    cons, nil = relay.Constructor("C", [a, lst(a)], lst), relay.Constructor("N", [], lst)
    mod[lst] = relay.TypeData(lst, [a], [cons, nil])
    assert mod[lst].constructors == (cons, nil) and (cons.tag, nil.tag) == (0, 1) and mod.get_type("Lst") == (lst, cons, nil)
    b, rest = relay.TypeVar("b"), relay.var("rest")
    xs = relay.Var("xs", lst(b))
    length = relay.GlobalVar("len")
    body = relay.Match(
        xs,
        [
            relay.Clause(
                relay.PatternConstructor(cons, [relay.PatternWildcard(), relay.PatternVar(rest)]), length(rest) + relay.const(1)
            ),
            relay.Clause(relay.PatternConstructor(nil), relay.const(0)),
        ],
    )
    mod[length] = relay.Function([xs], body, relay.scalar_type("int32"), [b])
    mod["main"] = relay.Function([], length(cons(relay.const(1.0), cons(relay.const(2.0), nil()))))
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    assert result(mod) == 2


def test_references_in_python() -> None:
    r = relay.var("r")
    body = relay.Let(r, relay.RefCreate(relay.const(1)), relay.RefWrite(r, relay.RefRead(r) + relay.const(1)))
    assert result(relay.IRModule.from_expr(relay.Function([], body))) == ()


NONSENSE = {
    "a pattern": lambda: relay.Clause("Cons", 1),
    "no clause": lambda: relay.Match(relay.const(1), []),
    "a clause": lambda: relay.Match(relay.const(1), [1]),
    "a type": lambda: relay.Constructor("C", [1], relay.GlobalTypeVar("T")),
    "belongs": lambda: relay.TypeData(relay.GlobalTypeVar("T"), [], [relay.Constructor("C", [], relay.GlobalTypeVar("U"))]),
    "an expression": lambda: relay.RefRead("r"),
    "the name": lambda: relay.TypeVar(1),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_in_python(case: str) -> None:
    with pytest.raises(relay.ArgumentError):
        NONSENSE[case]()


def test_visitors_visit_every_kind_of_node() -> None:
    mod = module(
        LIST + "def @main(%c: Color) { let %r = ref(%c); ref_write(%r, Red); match (ref_read(%r)) { Red => 1, _ => 2 } }"
    )

    class Kinds(relay.ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.seen: set[str] = set()

        def visit(self, expr: Any) -> Any:
            self.seen.add(type(expr).__name__)
            return super().visit(expr)

    kinds = Kinds()
    kinds.visit(mod["main"])
    assert kinds.seen >= {"Match", "RefCreate", "RefRead", "RefWrite", "Constructor"}
    same = relay.ExprMutator().visit(mod["main"])
    assert same is mod["main"]
