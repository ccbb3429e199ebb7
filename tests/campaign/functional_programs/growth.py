"""Random well-typed functional programs: each expression grows from the type that it must have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from .library import CONSTRUCTORS, FUNCTIONS, PARAMETERS, TYPES
from .nodes import GlobalFunction, Node, Program, Ty, type_text

SCALARS = ("int", "bool", "vec", "float", "fvec")
Scope = tuple[tuple[str, Ty], ...]
Part = str | Node


def fields_of(ty: Ty, constructor: str) -> list[Ty]:
    """The types of a constructor's fields in an instance of its type."""

    def of(field: Any) -> Ty:
        if isinstance(field, int):
            return ty[1 + field]
        return (field[0], *map(of, field[1:])) if isinstance(field, tuple) else field

    return [of(f) for f in CONSTRUCTORS[ty[0]][constructor]]


def simplest(ty: Ty) -> Node:
    """The simplest expression of a type."""
    words = {"int": "1", "float": "1f", "bool": "True", "vec": "@ints([1, 2])", "fvec": "@floats([1f, 2f])"}
    if isinstance(ty, str):
        return Node(ty, (words[ty],), "literal")
    if ty[0] == "tuple":
        return Node(ty, ("(", *_joined(map(simplest, ty[1:])), ",)" if len(ty) == 2 else ")"), "tuple")
    if ty[0] == "fn":
        params = ", ".join(f"%_p{i}: {type_text(t)}" for i, t in enumerate(ty[1:-1]))
        return Node(ty, (f"fn ({params}) -> {type_text(ty[-1])} {{ ", simplest(ty[-1]), " }"), "function")
    if ty[0] == "ref":
        return Node(ty, ("ref(", simplest(ty[1]), ")"), "reference")
    name = list(CONSTRUCTORS[ty[0]])[-1]
    return _construct(ty, name, [simplest(t) for t in fields_of(ty, name)])


def _construct(ty: Ty, name: str, fields: list[Node]) -> Node:
    return Node(ty, (name, "(", *_joined(fields), ")") if fields else (name,), f"constructor {name}")


def _joined(nodes: Iterable[Part]) -> list[Part]:
    out: list[Part] = []
    for node in nodes:
        out += [", ", node] if out else [node]
    return out


class Growth:
    """The growth of one program."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.count = 0
        self.used: set[str] = {"ints", "floats"}
        self.globals: list[tuple[str, tuple[Ty, ...], Ty]] = []
        self.functions: list[GlobalFunction] = []
        self.simplest: dict[str, Node] = {}

    def program(self) -> Program:
        """A program of some functions and ``main``."""
        r = self.r
        for _ in range(r.choice((0, 1, 1, 2, 3))):
            r.choice((self._plain, self._loop, self._fold, self._alternating))()
        params = tuple((self._name("x"), r.choice(SCALARS)) for _ in range(r.randrange(1, 4)))
        result = ("tuple", *(self._data(2) for _ in range(r.randrange(1, 4))))
        body = self.expr(result, params, r.randrange(3, 6))
        head = f"def @main({_declared(params)})"
        main = GlobalFunction("main", head, body)
        arguments = tuple((ty, self._argument(ty)) for _, ty in params)
        return Program(TYPES, (*self._library(main), *self.functions, main), arguments)

    def _library(self, main: GlobalFunction) -> list[GlobalFunction]:
        return [
            GlobalFunction(
                n, FUNCTIONS[n].partition("{")[0].rstrip(), Node("", (FUNCTIONS[n].partition("{")[2][:-1].strip(),), "library")
            )
            for n in FUNCTIONS
            if n in self.used
        ]

    def _argument(self, ty: Ty) -> Any:
        r = self.r
        if ty in ("vec", "fvec"):
            return tuple(r.randrange(-3, 4) for _ in range(r.randrange(0, 4)))
        return r.randrange(2) if ty == "bool" else r.randrange(-3, 5)

    def _name(self, hint: str) -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    # ---- types -----------------------------------------------------------------------------------------------------------

    def _data(self, depth: int) -> Ty:
        """A type of values that a run may return."""
        r = self.r
        if depth == 0 or r.random() < 0.5:
            return r.choice(SCALARS)
        if r.random() < 0.3:
            return ("tuple", *(self._data(depth - 1) for _ in range(r.randrange(1, 4))))
        name = r.choice(list(PARAMETERS))
        return (name, *(self._data(depth - 1) for _ in range(PARAMETERS[name])))

    def _any(self, depth: int) -> Ty:
        """A type."""
        r = self.r
        if depth and r.random() < 0.2:
            return ("fn", *(self._data(1) for _ in range(r.randrange(0, 3))), self._data(1))
        if depth and r.random() < 0.2:
            return ("ref", self._data(1))
        return self._data(depth)

    # ---- global functions ------------------------------------------------------------------------------------------------

    def _global(self, name: str, params: Scope, result: Ty, body: Node, callable_: bool = True) -> None:
        annotation = f" -> {type_text(result)}"
        self.functions.append(GlobalFunction(name, f"def @{name}({_declared(params)}){annotation}", body))
        if callable_:
            self.globals.append((name, tuple(t for _, t in params), result))

    def _fresh(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def _plain(self) -> None:
        params = tuple((self._name("a"), self._any(1)) for _ in range(self.r.randrange(0, 3)))
        result = self._any(1)
        self._global(self._fresh("f"), params, result, self.expr(result, params, 3))

    def _loop(self) -> None:
        """A function that calls itself as often as a counter says, in tail position or not."""
        r, name = self.r, self._fresh("loop")
        n, acc, other = self._name("n"), self._name("acc"), self._name("o")
        ty, extra = self._data(1), self._any(1)
        scope: Scope = ((n, "int"), (acc, ty), (other, extra))
        if r.random() < 0.5:
            again: tuple[Part, ...] = (f"@{name}({n} - 1, ", self.expr(ty, scope, 2), f", {other})")
        else:
            inner = self._name("r")
            again = (f"let {inner} = @{name}({n} - 1, {acc}, {other}); ", self.expr(ty, (*scope, (inner, ty)), 2))
        body = Node(ty, (f"if ({n} <= 0) {{ ", self.expr(ty, scope[1:], 1), " } else { ", *again, " }"), "recursion")
        self._global(name, scope, ty, body, callable_=False)
        self.globals.append((f"{name}#", (ty, extra), ty))

    def _fold(self) -> None:
        """A function that follows the structure of a list or tree."""
        name, element, ty = self._fresh("fold"), self._data(1), self._data(1)
        data, z = self._name("d"), self._name("z")
        if self.r.random() < 0.5:
            h, t, inner = self._name("h"), self._name("t"), self._name("r")
            whole: Ty = ("List", element)
            scope: Scope = ((z, ty), (h, element), (t, whole), (inner, ty))
            case: list[Part] = [f"Cons({h}, {t}) => {{ let {inner} = @{name}({t}, {z}); ", self.expr(ty, scope, 2), " }, Nil => "]
        else:
            a, h, b = self._name("l"), self._name("h"), self._name("r")
            whole = ("Tree", element)
            scope = ((z, ty), (h, element), (a, ty), (b, ty))
            case = [f"Node({a}_, {h}, {b}_) => {{ let {a} = @{name}({a}_, {z}); let {b} = @{name}({b}_, {z}); "]
            case += [self.expr(ty, scope, 2), " }, Leaf => "]
        body = Node(ty, (f"match ({data}) {{ ", *case, self.expr(ty, ((z, ty),), 1), " }"), "recursion")
        self._global(name, ((data, whole), (z, ty)), ty, body)

    def _alternating(self) -> None:
        """Two functions that call each other."""
        one, two, ty = self._fresh("even"), self._fresh("odd"), self._data(1)
        for name, other in ((one, two), (two, one)):
            n, acc = self._name("n"), self._name("acc")
            scope: Scope = ((acc, ty),)
            parts = (
                f"if ({n} <= 0) {{ ",
                self.expr(ty, scope, 1),
                f" }} else {{ @{other}({n} - 1, ",
                self.expr(ty, scope, 2),
                ") }",
            )
            self._global(name, ((n, "int"), (acc, ty)), ty, Node(ty, parts, "mutual recursion"), callable_=False)
        self.globals.append((f"{one}#", (ty,), ty))

    # ---- expressions -----------------------------------------------------------------------------------------------------

    def expr(self, ty: Ty, scope: Scope, depth: int) -> Node:
        """An expression of a type over the variables in scope."""
        node = self._expr(ty, scope, depth)
        self.simplest.setdefault(repr(ty), simplest(ty))
        return node

    def _expr(self, ty: Ty, scope: Scope, depth: int) -> Node:
        r = self.r
        names = [n for n, t in scope if t == ty]
        if names and r.random() < (0.9 if depth <= 0 else 0.2):
            return Node(ty, (r.choice(names[-4:]),), "variable")
        if depth <= 0:
            return simplest(ty)
        general: list[Callable[[Ty, Scope, int], Node | None]] = [
            self._if, self._let, self._let, self._shared, self._match, self._match, self._call_closure, self._call_global,
            self._call_global, self._polymorphic, self._polymorphic, self._project, self._reference,
            self._local_recursion, self._effects,
        ]  # fmt: skip
        if r.random() < 0.55:
            made = r.choice(general)(ty, scope, depth)
            if made is not None:
                return made
        return self._own(ty, scope, depth)

    def _own(self, ty: Ty, scope: Scope, depth: int) -> Node:
        """An expression of the kind of its type."""
        r = self.r
        if isinstance(ty, str):
            return self._tensor(ty, scope, depth)
        if ty[0] == "tuple":
            fields = [self.expr(t, scope, depth - 1) for t in ty[1:]]
            return Node(ty, ("(", *_joined(fields), ",)" if len(ty) == 2 else ")"), "tuple")
        if ty[0] == "fn":
            return self._function(ty, scope, depth)
        if ty[0] == "ref":
            return Node(ty, ("ref(", self.expr(ty[1], scope, depth - 1), ")"), "reference")
        name = r.choice(list(CONSTRUCTORS[ty[0]]))
        return _construct(ty, name, [self.expr(t, scope, depth - 1) for t in fields_of(ty, name)])

    def _tensor(self, ty: str, scope: Scope, depth: int) -> Node:
        e = lambda t: self.expr(t, scope, depth - 1)  # noqa: E731
        r = self.r
        op = r.choice(("add", "subtract", "multiply", "maximum", "minimum"))
        if ty in ("int", "float"):
            vec = "vec" if ty == "int" else "fvec"
            forms: list[tuple[Part, ...]] = [(f"{op}(", e(ty), ", ", e(ty), ")")] * 2 + [("sum(", e(vec), ")")]
            if ty == "int":
                forms += [("take(shape_of(", e("vec"), ', dtype="int32"), 0)'), (str(r.randrange(-9, 10)),)]
                forms += [("where(", e("bool"), ", ", e("int"), ", ", e("int"), ")")]
            else:
                forms += [("cast(", e("int"), ', dtype="float32")'), (f"{r.randrange(-4, 5)}f",)]
        elif ty == "bool":
            compare = r.choice(("less", "equal", "greater_equal"))
            logical = r.choice(("logical_and", "logical_or"))
            forms = [(f"{compare}(", e("int"), ", ", e("int"), ")"), (f"{logical}(", e("bool"), ", ", e("bool"), ")"),
                     ("logical_not(", e("bool"), ")")]  # fmt: skip
        else:
            scalar = "int" if ty == "vec" else "float"
            capped = ("strided_slice(concatenate((", e(ty), ", ", e(ty), ")), begin=[0], end=[5], strides=[1])")
            forms = [(f"{op}(", e(ty), ", ", e(scalar), ")"), capped]
            if ty == "vec":
                forms += [("arange(0, minimum(maximum(", e("int"), ', 0), 4), 1, dtype="int32")')]
                forms += [("where(greater(", e("vec"), ", 0), 7, 0 - 2)")]
            else:
                forms += [("cast(", e("vec"), ', dtype="float32")')]
        return Node(ty, r.choice(forms), "operator")

    def _function(self, ty: Ty, scope: Scope, depth: int) -> Node:
        r, wanted = self.r, (tuple(ty[1:-1]), ty[-1])
        known = [n for n, params, result in self.globals if (params, result) == wanted and "#" not in n]
        if known and r.random() < 0.5:
            return Node(ty, (f"@{r.choice(known)}",), "global function as value")
        if len(wanted[0]) == 1 and wanted[0][0] == ty[-1] and r.random() < 0.3:
            self.used.add("id")
            return Node(ty, ("@id",), "polymorphic function as value")
        if len(wanted[0]) == 1 and r.random() < 0.15:
            self.used.add("constant")
            return Node(ty, ("@constant(", self.expr(ty[-1], scope, depth - 1), ")"), "polymorphic call")
        if len(wanted[0]) == 1 and r.random() < 0.2:
            self.used.add("compose")
            middle = self._data(1)
            f, g = ("fn", middle, ty[-1]), ("fn", wanted[0][0], middle)
            return Node(
                ty, ("@compose(", self.expr(f, scope, depth - 1), ", ", self.expr(g, scope, depth - 1), ")"), "polymorphic call"
            )
        if ty[-1] == ("Option", wanted[0][0] if wanted[0] else None) and len(wanted[0]) == 1 and r.random() < 0.5:
            return Node(ty, ("Some",), "constructor as value")
        params = tuple((self._name("p"), t) for t in wanted[0])
        body = self.expr(ty[-1], (*scope, *params), depth - 1)
        return Node(ty, (f"fn ({_declared(params)}) -> {type_text(ty[-1])} {{ ", body, " }"), "function")

    def _if(self, ty: Ty, scope: Scope, depth: int) -> Node:
        e = lambda t: self.expr(t, scope, depth - 1)  # noqa: E731
        return Node(ty, ("if (", e("bool"), ") { ", e(ty), " } else { ", e(ty), " }"), "if")

    def _let(self, ty: Ty, scope: Scope, depth: int) -> Node:
        bound, name = self._any(2), self._name("v")
        declared = self.r.random() < 0.3
        value = self.expr(bound, scope, depth - 1)
        annotation = f": {type_text(bound)}" if declared or _leaves_open(value) else ""
        return Node(
            ty, (f"{{ let {name}{annotation} = ", value, "; ", self.expr(ty, (*scope, (name, bound)), depth - 1), " }"), "let"
        )

    def _shared(self, ty: Ty, scope: Scope, depth: int) -> Node:
        """An expression that may be used several times, in branches and functions too."""
        self.count += 1
        bound, name = self._any(1), f"%{self.count}"
        value = self.expr(bound, scope, depth - 1)
        value = self._typed(value) if _leaves_open(value) else value
        return Node(
            ty, (f"{{ {name} = ", value, "; ", self.expr(ty, (*scope, (name, bound)), depth - 1), " }"), "shared expression"
        )

    def _match(self, ty: Ty, scope: Scope, depth: int) -> Node:
        r = self.r
        known = [(n, t) for n, t in scope if isinstance(t, tuple) and (t[0] in CONSTRUCTORS or t[0] == "tuple")]
        if known and r.random() < 0.7:
            name, data = r.choice(known)
            value = Node(data, (name,), "variable")
        else:
            head = r.choice(list(PARAMETERS))
            data = (head, *(self._data(1) for _ in range(PARAMETERS[head])))
            if r.random() < 0.3:
                data = ("tuple", data, self._data(1))
            value = self._typed(self.expr(data, scope, depth - 1))
        parts: list[Part] = []
        if data[0] in CONSTRUCTORS:
            names = list(CONSTRUCTORS[data[0]])
            r.shuffle(names)
            left_out = r.randrange(len(names)) if r.random() < 0.4 else 0
            for constructor in names[left_out:]:
                if r.random() < 0.4:  # a nested pattern before the general one
                    parts += self._clause(self._constructed(data, constructor, 2), ty, scope, depth)
                parts += self._clause(self._constructed(data, constructor, 0), ty, scope, depth)
            if left_out:
                parts += self._clause(self._bind(data), ty, scope, depth)
        else:
            if r.random() < 0.7:
                parts += self._clause(self._pattern(data, 2), ty, scope, depth)
            parts += self._clause(("_", ()) if r.random() < 0.3 else self._pattern(data, 0), ty, scope, depth)
        partial = "?" if r.random() < 0.1 else ""
        return Node(ty, (f"match{partial} (", value, ") { ", *parts, " }"), "match")

    def _clause(self, pattern: tuple[str, Scope], ty: Ty, scope: Scope, depth: int) -> list[Part]:
        text, bound = pattern
        return [f"{text} => ", self.expr(ty, (*scope, *bound), depth - 1), ", "]

    def _bind(self, ty: Ty) -> tuple[str, Scope]:
        if self.r.random() < 0.3:
            return "_", ()
        name = self._name("m")
        return name, ((name, ty),)

    def _constructed(self, ty: Ty, constructor: str, depth: int) -> tuple[str, Scope]:
        parts = [self._pattern(t, depth - 1) for t in fields_of(ty, constructor)]
        texts = ", ".join(t for t, _ in parts)
        return (f"{constructor}({texts})" if parts else constructor), tuple(b for _, bound in parts for b in bound)

    def _pattern(self, ty: Ty, depth: int) -> tuple[str, Scope]:
        """A pattern; of depth 0 or less it matches every value."""
        if isinstance(ty, tuple) and ty[0] == "tuple" and self.r.random() < 0.6:
            parts = [self._pattern(t, depth - 1) for t in ty[1:]]
            texts = ", ".join(t for t, _ in parts)
            return f"({texts}{',' if len(parts) == 1 else ''})", tuple(b for _, bound in parts for b in bound)
        if depth > 0 and isinstance(ty, tuple) and ty[0] in CONSTRUCTORS and self.r.random() < 0.7:
            return self._constructed(ty, self.r.choice(list(CONSTRUCTORS[ty[0]])), depth)
        return self._bind(ty)

    def _typed(self, node: Node) -> Node:
        """The expression with its type, which nothing else may determine."""
        if not _is_open(node.ty):
            return node
        self.used.add("id")
        return Node(node.ty, (f"@id[{type_text(node.ty)}](", node, ")"), "polymorphic call")

    def _call_closure(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        known = [(n, t) for n, t in scope if isinstance(t, tuple) and t[0] == "fn" and t[-1] == ty]
        if not known:
            return None
        name, fn = self.r.choice(known)
        return Node(ty, (f"{name}(", *_joined(self.expr(t, scope, depth - 1) for t in fn[1:-1]), ")"), "closure call")

    def _call_global(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        known = [g for g in self.globals if g[2] == ty]
        if not known:
            return None
        name, params, _ = self.r.choice(known)
        args: list[Part] = [self.expr(t, scope, depth - 1) for t in params]
        if name.endswith("#"):
            counter: Part = str(self.r.randrange(4))
            if self.r.random() < 0.4:
                counter = Node("int", ("minimum(", self.expr("int", scope, depth - 1), ", 3)"), "operator")
            args, name = [counter, *args], name[:-1]
        return Node(ty, (f"@{name}(", *_joined(args), ")"), "global call")

    def _polymorphic(self, ty: Ty, scope: Scope, depth: int) -> Node:
        r = self.r
        e = lambda t: self.expr(t, scope, depth - 1)  # noqa: E731
        other = self._data(1)
        forms: dict[str, Callable[[], list[Part]]] = {
            "id": lambda: [e(ty)],
            "first": lambda: [e(ty), e(self._any(1))],
            "twice": lambda: [e(("fn", ty, ty)), e(ty)],
            "apply": lambda: [e(("fn", other, ty)), e(other)],
            "or_else": lambda: [e(("Option", ty)), e(ty)],
            "foldl": lambda: [e(("fn", ty, other, ty)), e(ty), e(("List", other))],
            "foldr": lambda: [e(("fn", other, ty, ty)), e(ty), e(("List", other))],
            "walk": lambda: [e(("fn", ty, other, ty, ty)), e(ty), e(("Tree", other))],
            "update": lambda: [e(("ref", ty)), e(("fn", ty, ty))],
        }
        if isinstance(ty, tuple) and ty[0] == "List":
            forms["map"] = lambda: [e(("fn", other, ty[1])), e(("List", other))]
            if isinstance(ty[1], tuple) and ty[1][0] == "tuple" and len(ty[1]) == 3:
                forms["zip"] = lambda: [e(("List", ty[1][1])), e(("List", ty[1][2]))]
        if isinstance(ty, tuple) and ty[0] == "tuple" and len(ty) == 3:
            forms["swap"] = lambda: [e(("tuple", ty[2], ty[1]))]
        name = r.choice(list(forms))
        self.used.add(name)
        explicit = f"[{type_text(ty)}]" if name in ("id", "twice", "or_else", "update") and r.random() < 0.3 else ""
        return Node(ty, (f"@{name}{explicit}(", *_joined(forms[name]()), ")"), "polymorphic call")

    def _project(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        known = [
            (n, i - 1) for n, t in scope if isinstance(t, tuple) and t[0] == "tuple" for i, f in enumerate(t) if i and f == ty
        ]
        if not known:
            return None
        name, index = self.r.choice(known)
        return Node(ty, (f"{name}.{index}",), "projection")

    def _reference(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        if isinstance(ty, tuple) and ty[0] in ("ref", "fn"):
            return None
        return Node(ty, ("ref_read(", self.expr(("ref", ty), scope, depth - 1), ")"), "reference")

    def _effects(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        """A write to a reference, before an expression."""
        known = [(n, t[1]) for n, t in scope if isinstance(t, tuple) and t[0] == "ref"]
        if not known:
            held, name = self._data(1), self._name("ref")
            start: list[Part] = [f"{{ let {name}: {type_text(('ref', held))} = ref(", self.expr(held, scope, depth - 1), "); "]
            inner: Scope = (*scope, (name, ("ref", held)))
        else:
            name, held = self.r.choice(known)
            start, inner = ["{ "], scope
        write: list[Part] = [f"ref_write({name}, ", self.expr(held, inner, depth - 1), "); "]
        return Node(ty, (*start, *write, self.expr(ty, inner, depth - 1), " }"), "effect")

    def _local_recursion(self, ty: Ty, scope: Scope, depth: int) -> Node | None:
        """A closure that calls itself."""
        if isinstance(ty, tuple) and ty[0] in ("ref", "fn"):
            return None
        f, k, a = self._name("g"), self._name("k"), self._name("a")
        inner: Scope = (*scope, (k, "int"), (a, ty))
        text = type_text(ty)
        head = f"{{ let {f} = fn ({k}: int32, {a}: {text}) -> {text} {{ if ({k} <= 0) {{ {a} }} else {{ {f}({k} - 1, "
        body = self.expr(ty, inner, depth - 1)
        start = self.expr(ty, scope, depth - 1)
        return Node(ty, (head, body, f") }} }}; {f}({self.r.randrange(4)}, ", start, ") }"), "local recursion")


def _is_open(ty: Ty) -> bool:
    """Whether a value of the type may leave a part of the type to its context, as ``Nil`` does."""
    return isinstance(ty, tuple) and (PARAMETERS.get(ty[0], 0) > 0 or any(map(_is_open, ty[1:])))


def _leaves_open(node: Node) -> bool:
    """Whether an expression may leave a part of its type open: a constructor in it does not mention each type parameter."""
    return _is_open(node.ty) and any(_mentions_few(n) for n in node.nodes() if n.form.startswith("constructor "))


def _mentions_few(node: Node) -> bool:
    constructor = node.form.removeprefix("constructor ")
    fields = CONSTRUCTORS[node.ty[0]].get(constructor, ()) if isinstance(node.ty, tuple) and node.ty[0] in CONSTRUCTORS else ()
    return len({f for f in fields if isinstance(f, int)}) < PARAMETERS.get(node.ty[0], 0)


def _declared(params: Scope) -> str:
    return ", ".join(f"{n}: {type_text(t)}" for n, t in params)
