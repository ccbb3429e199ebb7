"""Random programs with every form of memory reuse; their kernels are few, and each is compiled once."""

from __future__ import annotations

from hypothesis import strategies as st

#: The sizes of all matrices.  A row is a line of memory, so views of matrices are possible.
ROWS, COLUMNS = 3, 16
#: With fixed sizes (arenas) and with sizes known at run time.
KINDS = {"fixed": f"Tensor[({ROWS}, {COLUMNS}), float32]", "open": f"Tensor[(?n, {COLUMNS}), float32]"}
#: Values from values ``a b`` and a number ``i``.
FORMS = (
    *("add({a}, {b})", "negative({a})", "abs({a})", "nn.relu({a})", "maximum({a}, {b})", "nn.softmax({a})"),
    "reverse({a}, axis=1)",
    "reshape(abs(reshape({a}, newshape=[-1, 2])), newshape=[-1, 16])",
    *("@pass({a})", "@work({a})", "@both({a}, {b}).0", "@both({a}, {b}).1"),
    "@loop({i}, {a}, {b})",
    "concatenate((strided_slice({a}, begin=[8], end=[16], axes=[1]), "
    "nn.softmax(strided_slice({b}, begin=[0], end=[8], axes=[1]))), axis=1)",
    "concatenate((nn.softmax(strided_slice({a}, begin=[1], end=[3])), strided_slice({b}, begin=[0], end=[1])), axis=0)",
    "{{ let %q = nn.softmax(strided_slice({a}, begin=[1], end=[9])); "
    "concatenate((%q, nn.softmax(strided_slice({b}, begin=[0], end=[1]))), axis=0) }}",
    "{{ let %q = concatenate((nn.softmax({a}), nn.softmax({b})), axis=0); let %r = nn.log_softmax(%q); "
    "nn.softmax(strided_slice(concatenate((%r, %q), axis=0), begin=[1], end=[4])) }}",
    "{{ let %q = split(stack((nn.softmax({a}), {b}), axis=0), indices_or_sections=2); "
    "add(nn.softmax(squeeze(%q.0, axis=[0])), squeeze(%q.1, axis=[0])) }}",
    "add(zeros_like({a}), {b})",
    "if (less({i}, 2i64)) {{ nn.softmax(negative({a})) }} else {{ let %q = reverse({b}, axis=1); maximum(abs(%q), {a}) }}",
    "if (less({i}, 1i64)) {{ {a} }} else {{ abs({b}) }}",
    "if (less({i}, 1i64)) {{ @work({a}) }} else {{ let %q = abs({b}); if (less({i}, 3i64)) {{ %q }} else {{ @pass(%q) }} }}",
    "{{ let %g = fn (%q: {kind}) -> {kind} {{ add(%q, {b}) }}; @twice(%g, {a}) }}",
    "{{ let %t = ({a}, abs({b})); let %u = negative(%t.1); add(%u, %t.0) }}",
)  # fmt: skip
_FUNCTIONS = """
def @pass(%x: {kind}) -> {kind} {{ %x }}
def @work(%x: {kind}) -> {kind} {{ let %a = abs(%x); let %b = negative(%a); add(%b, nn.softmax(%b)) }}
def @both(%x: {kind}, %y: {kind}) -> ({kind}, {kind}) {{ let %a = abs(%x); (%a, add(%y, %a)) }}
def @loop(%i: int64, %x: {kind}, %y: {kind}) -> {kind} {{
  if (less(%i, 1i64)) {{ %x }} else {{ @loop(subtract(%i, 1i64), add(abs(%y), %x), negative(%x)) }}
}}
def @twice(%g: fn ({kind}) -> {kind}, %x: {kind}) -> {kind} {{ %g(%g(%x)) }}
"""


@st.composite
def memory_programs(draw: st.DrawFn, kind: str, most: int = 10) -> str:
    """A program over two matrices and a number; its result holds one to three of its values."""
    ty, values, lines = KINDS[kind], ["%a", "%b"], []
    for k in range(draw(st.integers(1, most))):
        form = draw(st.sampled_from(FORMS))
        # the newest values more often: what is dead can be used again
        a, b = (values[-1] if draw(st.booleans()) else draw(st.sampled_from(values)) for _ in "ab")
        lines.append(f"let %v{k} = {form.format(a=a, b=b, i='%i', kind=ty)};")
        values.append(f"%v{k}")
    result = ", ".join(draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3)))
    head = '#[version = "0.0.5"]' + _FUNCTIONS.format(kind=ty)
    return f"{head}def @main(%a: {ty}, %b: {ty}, %i: int64) {{ {' '.join(lines)} ({result},) }}\n"
