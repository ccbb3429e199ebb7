"""Random programs with generic functions, each as a text and as a value of Python.

A program is generated from its types: an expression is chosen among those that have the wanted type.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A type: the name of a scalar or a type variable, or a head with the types that it is made of.
Ty = Any
Env = Mapping[str, Any]
FLOAT, INT, A, B = "float32", "int32", "A", "B"
SCALARS = (FLOAT, INT)
HEADER = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @nil[A]() -> List[A] { Nil }
"""


def text_of(ty: Ty) -> str:
    """The type as a program writes it."""
    if isinstance(ty, str):
        return ty
    head, *parts = ty
    texts = list(map(text_of, parts))
    if head == "list":
        return f"List[{texts[0]}]"
    if head == "fn":
        return f"fn ({', '.join(texts[:-1])}) -> {texts[-1]}"
    return f"({', '.join(texts)})"


def at(ty: Ty, mapping: Mapping[str, Ty]) -> Ty:
    """The type with types in the place of type variables."""
    return mapping.get(ty, ty) if isinstance(ty, str) else (ty[0], *(at(part, mapping) for part in ty[1:]))


def fits(pattern: Ty, ty: Ty, mapping: dict[str, Ty]) -> bool:
    """Whether the pattern is the type for some types of its variables, which ``mapping`` gets."""
    if pattern in (A, B):
        return mapping.setdefault(pattern, ty) == ty
    if isinstance(pattern, str) or isinstance(ty, str):
        return bool(pattern == ty)
    return (
        len(pattern) == len(ty)
        and pattern[0] == ty[0]
        and all(fits(p, t, mapping) for p, t in zip(pattern[1:], ty[1:], strict=True))
    )


@dataclass(frozen=True)
class Term:
    """An expression: its text, and its value in Python for the values of its variables."""

    text: str
    value: Callable[[Env], Any]


@dataclass
class Generic:
    """A generic function of a program."""

    name: str
    params: Sequence[tuple[str, Ty]]
    result: Ty
    body: Term

    def call(self, *args: Any) -> Any:
        """The result in Python."""
        return self.body.value(dict(zip((name for name, _ in self.params), args, strict=True)))

    def text(self, annotated: bool) -> str:
        """The definition, with or without its result type."""
        params = ", ".join(f"%{name}: {text_of(ty)}" for name, ty in self.params)
        result = f" -> {text_of(self.result)}" if annotated else ""
        return f"def @{self.name}[A, B]({params}){result} {{ {self.body.text} }}\n"


@dataclass
class Programs:
    """The generator; ``functions``: those that its programs may call."""

    random: random.Random
    functions: list[Generic] = field(default_factory=list)
    count: int = 0

    def name(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def atoms(self, scope: Mapping[str, Ty]) -> tuple[str, ...]:
        """The scalars, and the type variables of which there are values."""
        return (*SCALARS, *sorted({t for t in scope.values() if t in (A, B)}))

    def type(self, atoms: Sequence[str], depth: int = 2, functions: bool = False) -> Ty:
        """A type over some scalars and type variables."""
        kind = self.random.randrange(5 if functions else 4) if depth else 0
        if kind <= 1:
            return self.random.choice(atoms)
        if kind == 2:
            return ("list", self.type(atoms, depth - 1))
        if kind == 3:
            return ("tuple", *(self.type(atoms, depth - 1) for _ in range(2)))
        return ("fn", self.type(atoms, depth - 1), self.type(atoms, depth - 1))

    def generic(self) -> Generic:
        """A generic function, whose parameters determine its type variables."""
        atoms = (A, B, *SCALARS)
        params = [
            ("a", A),
            ("b", B),
            *((self.name("p"), self.type(atoms, functions=True)) for _ in range(self.random.randrange(3))),
        ]
        result = self.type(atoms)
        made = Generic(self.name("f"), params, result, self.term(result, dict(params), 3))
        self.functions.append(made)
        return made

    # ---- terms -----------------------------------------------------------------------------------------------------------

    def term(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term:
        """An expression of a type over the variables of a scope."""
        choices: list[Callable[[], Term | None]] = [lambda: self.variable(ty, scope)]
        if depth:
            choices += [
                lambda: self.let(ty, scope, depth),
                lambda: self.branch(ty, scope, depth),
                lambda: self.call(ty, scope, depth),
                lambda: self.applied(ty, scope, depth),
                lambda: self.projection(ty, scope),
                lambda: self.match(ty, scope, depth),
            ]
        self.random.shuffle(choices)
        for choice in choices[: 1 + self.random.randrange(3)]:
            made = choice()
            if made is not None:
                return made
        return self.constructed(ty, scope, depth)

    def variable(self, ty: Ty, scope: Mapping[str, Ty]) -> Term | None:
        found = [name for name, t in scope.items() if t == ty]
        if not found:
            return None
        name = self.random.choice(found)
        return Term(f"%{name}", lambda env: env[name])

    def constructed(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term:
        """A value made of its parts; a value of a type variable is a variable."""
        inner = max(depth - 1, 0)
        if ty in (A, B):
            found = self.variable(ty, scope)
            assert found is not None
            return found
        if ty in SCALARS:
            number = self.random.randrange(4)
            if not depth:
                return Term(f"{number}{'f' if ty == FLOAT else ''}", lambda env: number)
            a, b = self.term(ty, scope, inner), self.term(ty, scope, inner)
            return Term(f"add({a.text}, {b.text})", lambda env: a.value(env) + b.value(env))
        if ty[0] == "tuple":
            fields = [self.term(t, scope, inner) for t in ty[1:]]
            return Term(f"({', '.join(f.text for f in fields)})", lambda env: tuple(f.value(env) for f in fields))
        if ty[0] == "fn":
            name = self.name("z")
            body = self.term(ty[2], {**scope, name: ty[1]}, inner)
            return Term(f"fn (%{name}: {text_of(ty[1])}) {{ {body.text} }}", lambda env: lambda z: body.value({**env, name: z}))
        if not depth or self.random.randrange(3) == 0:
            return Term(f"@nil[{text_of(ty[1])}]()", lambda env: [])
        head, tail = self.term(ty[1], scope, inner), self.term(ty, scope, inner)
        return Term(f"Cons({head.text}, {tail.text})", lambda env: [head.value(env), *tail.value(env)])

    def let(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term:
        bound = self.type(self.atoms(scope), 1)
        name = self.name("v")
        value = self.term(bound, scope, depth - 1)
        body = self.term(ty, {**scope, name: bound}, depth - 1)
        # a block is an expression in the branch of an if
        return Term(
            f"if (True) {{ let %{name} = {value.text}; {body.text} }} else {{ {self.constructed(ty, scope, 0).text} }}",
            lambda env: body.value({**env, name: value.value(env)}),
        )

    def branch(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term:
        a, b = self.term(INT, scope, 0), self.term(INT, scope, 0)
        then, other = self.term(ty, scope, depth - 1), self.term(ty, scope, depth - 1)
        text = f"if (less({a.text}, {b.text})) {{ {then.text} }} else {{ {other.text} }}"
        return Term(text, lambda env: then.value(env) if a.value(env) < b.value(env) else other.value(env))

    def call(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term | None:
        """A call of a generic function, at types of its variables."""
        function = self.random.choice(self.functions) if self.functions else None
        mapping: dict[str, Ty] = {}
        if function is None or not fits(function.result, ty, mapping):
            return None
        types = {v: mapping.get(v) or self.type(self.atoms(scope), 1) for v in (A, B)}
        args = [self.term(at(t, types), scope, depth - 1) for _, t in function.params]
        text = f"@{function.name}({', '.join(arg.text for arg in args)})"
        return Term(text, lambda env: function.call(*(arg.value(env) for arg in args)))

    def applied(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term | None:
        found = [(name, t[1]) for name, t in scope.items() if t[0] == "fn" and t[2] == ty]
        if not found:
            return None
        name, wanted = self.random.choice(found)
        arg = self.term(wanted, scope, depth - 1)
        return Term(f"%{name}({arg.text})", lambda env: env[name](arg.value(env)))

    def projection(self, ty: Ty, scope: Mapping[str, Ty]) -> Term | None:
        found = [(name, k) for name, t in scope.items() if t[0] == "tuple" for k, part in enumerate(t[1:]) if part == ty]
        if not found:
            return None
        name, k = self.random.choice(found)
        return Term(f"%{name}.{k}", lambda env: env[name][k])

    def match(self, ty: Ty, scope: Mapping[str, Ty], depth: int) -> Term | None:
        found = [(name, t[1]) for name, t in scope.items() if t[0] == "list"]
        if not found:
            return None
        name, element = self.random.choice(found)
        head, tail = self.name("h"), self.name("t")
        other = self.term(ty, scope, depth - 1)
        body = self.term(ty, {**scope, head: element, tail: ("list", element)}, depth - 1)

        def value(env: Env) -> Any:
            items = env[name]
            return body.value({**env, head: items[0], tail: items[1:]}) if items else other.value(env)

        return Term(f"match (%{name}) {{ Cons(%{head}, %{tail}) => {{ {body.text} }}, Nil => {{ {other.text} }} }}", value)
