"""The evaluator behind ``relay.create_executor("debug")``: the meaning of programs, without the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import with_header
from ..ir.test_adt import EXPECTED, LIST, MATCHES, PRELUDE, colors, module, plain

PRELUDE_NAME = "prelude.rly"


def evaluated(text: str | relay.IRModule, *args: Any) -> Any:
    mod = relay.parse(with_header(text)) if isinstance(text, str) else text
    return plain(relay.create_executor("debug", mod).evaluate()(*args))


def test_the_prelude() -> None:
    mod = relay.IRModule()
    mod.import_from_std(PRELUDE_NAME)
    body = f"def @main() {{ let %l = Cons(1, Cons(2, Cons(3, Nil))); ({', '.join(PRELUDE)}) }}"
    assert evaluated(module(mod.astext().partition("]")[2] + body)) == tuple(PRELUDE.values())


@pytest.mark.parametrize("form", EXPECTED)
def test_matches(form: str) -> None:
    params, body = MATCHES[form]
    given = [colors(), colors("Red", "Blue", "Blue"), colors("Blue", "Green")]
    assert [evaluated(f"{LIST}def @main({params}) {{ {body} }}", value) for value in given] == EXPECTED[form]


#: Programs, arguments and results.  Their order of evaluation is visible through references.
ORDER = {
    "an if takes one branch": ("def @main(%b: bool) { if (%b) { 1 } else { divide(1, 0) } }", [True], 1),
    "an expression that occurs twice is evaluated once": (
        """def @main() {
          let %r = ref(0);
          let %next = fn () { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
          %0 = %next();
          (%0, %0, %next())
        }""",
        [],
        (1, 1, 2),
    ),
    "before the branches that use it": (
        """def @main(%b: bool) {
          let %r = ref(1);
          %0 = ref_read(%r);
          let %x = if (%b) { ref_write(%r, 5); %0 } else { 0 - %0 };
          (%x, %0)
        }""",
        [True],
        (1, 1),
    ),
    "before a function that uses it": (
        "def @main() { let %r = ref(1); %0 = ref_read(%r); let %f = fn () { %0 }; ref_write(%r, 2); (%f(), %0, ref_read(%r)) }",
        [],
        (1, 1, 2),
    ),
    "in each call of the function that alone uses it": (
        """def @main() {
          let %r = ref(1);
          let %f = fn () { %0 = ref_read(%r); %0 + %0 };
          let %a = %f();
          ref_write(%r, 2);
          (%a, %f())
        }""",
        [],
        (2, 4),
    ),
    "a local function calls itself": (
        "def @main(%n: int32) { let %f = fn (%k: int32) -> int32 { if (%k == 0) { 0 } else { %k + %f(%k - 1) } }; %f(%n) }",
        [4],
        10,
    ),
    "closures keep their own variables": (
        "def @add(%a: int32) { fn (%b: int32) { %a - %b } }\ndef @main() { let %f = @add(1); let %g = @add(2); (%f(5), %g(5)) }",
        [],
        (-4, -3),
    ),
    "parts of composite operators": (
        "def @main(%x: Tensor[(?, 2), float32]) { nn.l2_normalize(%x, eps=0f, axis=[1]) }",
        [np.array([[3, 4]], "float32")],
        [[pytest.approx(0.6), pytest.approx(0.8)]],
    ),
    "shapes": ('def @main(%x: Tensor[(?, 2), float32]) { shape_of(%x, dtype="int64") }', [np.zeros((3, 2), "float32")], [3, 2]),
}


@pytest.mark.parametrize("what", ORDER)
def test_the_meaning_of_programs(what: str) -> None:
    text, args, wanted = ORDER[what]
    assert evaluated(text, *args) == wanted
    mod = relay.parse(with_header(text))
    if what != "parts of composite operators":
        assert plain(relay.VirtualMachine(relay.compile(mod)).run(*args)) == wanted


def test_depth_is_no_limit() -> None:
    loop = "def @f(%n: int32, %a: int32) -> int32 { if (%n == 0) { %a } else { @f(%n - 1, %a + 1) } }"
    assert evaluated(f"{loop}\ndef @main() {{ @f(2000, 0) }}") == 2000
    deep = "def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @f(%n - 1) } }"
    assert evaluated(f"{deep}\ndef @main() {{ @f(2000) }}") == 2000
    lets = "".join(f"let %x{i + 1} = (%x{i}, 1).0;" for i in range(3000))
    assert evaluated(f"def @main(%x0: int32) {{ {lets} %x3000 }}", 3) == 3
    x = value = relay.var("x", relay.scalar_type("int32"))
    for _ in range(3000):
        value = relay.TupleGetItem(relay.Tuple([value]), 0)
    assert relay.create_executor("debug").evaluate(relay.Function([x], value))(4).tolist() == 4


def test_functions_are_results_that_python_calls() -> None:
    executor = relay.create_executor("debug", relay.parse(with_header("def @main(%a: int32) { fn (%b: int32) { %a - %b } }")))
    assert executor.evaluate()(7)(2).tolist() == 5


def test_parameters_without_types() -> None:
    executor = relay.create_executor("debug", relay.parse(with_header("def @main(%a, %b) { (%a + 1, %b) }")))
    assert plain(executor.evaluate()(1, (2.5, relay.ADT("Nil")))) == (2, (2.5, ("Nil",)))


MISTAKES = {
    "def @main(%x: float32) { @f(%x) }": "there is no function @f",
    "def @main(%x: float32) { %x(1f) }": "only a function is called, not float32",
    "def @f(%a: int32) { %a }\ndef @main(%x: float32) { @f() }": "the function takes 1 arguments, 0 given",
    "def @main(%x: float32) { if (%x) { 1 } else { 2 } }": "the condition of an if is a bool, not float32",
    "def @main(%x: float32) { %x.0 }": "there is no field 0 in float32",
    "def @main(%x: float32) { ref_read(%x) }": "only a reference is read and written, not float32",
    "def @main(%x: float32) { match (%x) { Some(%y) => %y, None => %x } }": "a pattern of a constructor does not fit float32",
    "def @main(%x: float32) { match (%x) { (%y, _) => %y } }": "a pattern of a tuple does not fit float32",
    "def @main(%x: float32) { Cons(%x) }": "Cons takes 2 arguments, 1 given",
    "def @main(%x: float32) { exp((%x, %x)) }": "exp: argument 1 (data) must be a tensor, not a tuple",
    "def @main(%x: float32) { exp(ref(%x)) }": "an operator takes tensors, not a value of kind RefValue",
    "def @main(%x: float32) { vm.alloc_closure(%x) }": "is an instruction of the machine",
    "def @main(%x: float32) { let %i = 1; add(%x, %i) }": "add: ",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_have_a_place(text: str) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        evaluated(LIST + text, 1)
    assert MISTAKES[text] in str(error.value) and error.value.diagnostics[0].span is not None


MISFITS = {
    "def @main(%x: float32) { let %y: int32 = %x; %y }": "%y must be int32, not float32",
    "def @main(%x: float32) { let %y: Tensor[(2), float32] = [1f, 2f, 3f]; %y }": "must be Tensor[(2), float32], not Tensor[(3)",
    "def @main(%x: float32) { let %y: (float32, int32) = (%x, %x); %y }":
        "%y must be (float32, int32): a part of it must be int32, not float32",
    "def @f(%y: int32) { %y }\ndef @main(%x: float32) { @f(%x) }": "%y must be int32, not float32",
    "def @main(%x: float32) { let %f = fn (%y: List[float32]) { 1 }; %f(Some(%x)) }":
        "%y must be List[float32], not a value of Some",
    "def @main(%x: float32) { let %l: List[float32] = Cons(%x, Cons(1, Nil)); 1 }":
        "%l must be List[float32]: a part of it must be float32, not int32",
    "def @main(%x: float32) { let %r: ref(int32) = %x; 1 }": "%r must be ref(int32), not float32",
    "def @main(%x: float32) { let %r: fn(int32) -> int32 = ref(%x); 1 }": "not a value of kind RefValue",
    "def @f(%a: Tensor[(?n), int32], %b: Tensor[(?n), int32]) { 1 }\ndef @main(%x: float32) { @f([1], [1, 2]) }":
        "%b must be Tensor[(?n), int32], not Tensor[(2), int32]",
}  # fmt: skip


@pytest.mark.parametrize("text", MISFITS)
def test_values_fit_the_annotations_of_variables(text: str) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        evaluated(LIST + text, 1)
    assert MISFITS[text] in str(error.value) and error.value.diagnostics[0].span is not None


def test_annotations_that_fit() -> None:
    text = """
    def @f[A](%a: A, %l: List[A], %v: Tensor[(?n, ?), float32]) -> int32 { let %r: ref(List[A]) = ref(%l); 3 }
    def @walk(%l: List[int32], %n: int32) -> int32 { match (%l) { Cons(%x, %t) => @walk(%t, %n + %x), Nil => %n } }
    def @build(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @build(%n - 1, Cons(%n, %l)) } }
    def @main(%x: int32) {
      let %f: fn(int32) -> List[int32] = fn (%y: int32) -> List[int32] { Cons(%y, Nil) };
      let %t: (int32, (bool, Option[int32])) = (%x, (True, Some(2)));
      @f(1, Cons(2, Nil), [[1f]]) + @f(True, %f(1), [[1f], [2f]]) + @walk(@build(%x, Nil), 0) + %t.0
    }"""
    assert evaluated(LIST + text, 400) == 6 + 400 * 401 // 2 + 400


def test_failures_have_a_place() -> None:
    texts = {
        "def @main(%x: int32) { divide(%x, 0) }": "integer division by zero",
        LIST + "def @main(%x: int32) { match? (Some(%x)) { None => 1 } }": "no case matches",
        "def @main(%x: int32) { reshape([1, 2], newshape=[3]) }": "reshape",
    }
    for text, wanted in texts.items():
        with pytest.raises((relay.VMError, relay.TypeCheckError)) as error:
            evaluated(text, 7)
        assert wanted in str(error.value) and error.value.diagnostics[0].span is not None


def test_wrong_arguments() -> None:
    text = f"{LIST}def @main(%l: List[Color], %x: Tensor[(2), float32], %t: (int32, int32)) {{ 1 }}"
    run = relay.create_executor("debug", relay.parse(with_header(text))).evaluate()
    good: dict[str, Any] = {"l": colors("Red"), "x": [1, 2], "t": (1, 2)}
    assert run(**good).tolist() == 1
    for name, value, wanted in (
        ("l", 1, "%l takes a List[Color], not int"),
        ("l", relay.ADT("Con"), "has no constructor Con"),
        ("l", relay.ADT("Cons"), "Cons has 2 fields, 0 were given"),
        ("x", [1, 2, 3], "has size 3 on axis 0, not 2"),
        ("t", 1, "%t takes 2 values in a tuple, not int"),
        ("t", (1, np.float64(2)), "has dtype float64, not int32"),
        ("y", 1, "has no parameter 'y'"),
    ):
        with pytest.raises(relay.InputError) as error:
            run(**{**good, name: value})
        assert wanted in str(error.value)
    for ty, wanted in {"ref(int32)": "takes a reference as %x", "fn(int32) -> int32": "takes a function as %x"}.items():
        with pytest.raises(relay.InputError, match=wanted.replace("%", "%")):
            evaluated(f"def @main(%x: {ty}) {{ 1 }}", 1)


def test_arguments_are_copied_and_results_read_only() -> None:
    x = np.ones(2, "float32")
    result = relay.create_executor("debug", relay.parse(with_header("def @main(%x: Tensor[(2), float32]) { %x }"))).evaluate()(x)
    x[0] = 5
    assert result.tolist() == [1, 1] and not result.flags.writeable


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        ("def @main(%x: Tensor[(?), float32]) -> Tensor[(3), float32] { %x }", "must be Tensor[(3), float32], not"),
        (
            """def @last(%x: Tensor[(?n), float32]) -> Tensor[(?n), float32] { concatenate((%x, %x)) }
            def @first(%x: Tensor[(?), float32]) { @last(%x) }
            def @main(%x: Tensor[(?), float32]) { @first(%x) }""",
            "must be Tensor[(?n), float32], not",
        ),
        (
            """def @main(%x: Tensor[(?), float32]) {
              let %f = fn (%y: Tensor[(?), float32]) -> (Tensor[(?), float32], int32) { (%y, %y) };
              let %pair = %f(%x);
              %pair.0
            }""",
            "must be (Tensor[(?), float32], int32): a part of it must be int32, not",
        ),
    ],
)
def test_a_result_of_another_type_than_declared(functions: str, text: str) -> None:
    with pytest.raises(relay.TypeCheckError) as error:
        evaluated(functions, np.ones(2, "float32"))
    assert f"the result of the function {text}" in str(error.value)
