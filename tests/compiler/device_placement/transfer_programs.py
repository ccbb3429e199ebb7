"""Programs with every kind of transfer between the host and a device, for properties of transfers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def flat(value: Any) -> list[Any]:
    """The tensors of a result."""
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


MAT, VEC = "Tensor[(?, ?), float32]", "Tensor[(2), int64]"
#: Matrices and vectors from matrices ``m n`` and vectors ``v w``.  Few operators: each kernel is compiled once.
MATRICES = (
    "exp({m})", "add({m}, {n})", "dyn.tile({m}, {v})", "dyn.reshape({m}, {w})", "dyn.strided_slice({m}, {v}, {w}, {v})",
    "@f({m})", "@both(({m}, {n})).1", 'cast(argwhere({m}), dtype="float32")',
    "{{ let %g = fn (%q: " + MAT + ") -> " + MAT + " {{ dyn.tile(%q, {v}) }}; @twice(%g, {m}) }}",
)  # fmt: skip
VECTORS = ("add({v}, {w})", 'shape_of({m}, dtype="int64")', 'cast(shape_of({m}, dtype="int32"), dtype="int64")')
BRANCH = "if (sum({m}) > 1f) {{ exp({n}) }} else {{ dyn.tile({m}, {v}) }}"


@st.composite
def drawn_programs(draw: st.DrawFn) -> tuple[str, bool]:
    """A program, and whether it has no branch."""
    mats, vecs, lines, straight = ["%a", "%b"], ["%s", "%t"], [], True
    for i in range(draw(st.integers(1, 6))):
        kind = draw(st.integers(0, len(MATRICES) + len(VECTORS)))
        form = (*MATRICES, *VECTORS, BRANCH)[kind]
        straight = straight and form is not BRANCH
        m, n, v, w = (draw(st.sampled_from(names)) for names in (mats, mats, vecs, vecs))
        lines.append(f"let %v{i} = {form.format(m=m, n=n, v=v, w=w)};")
        (vecs if form in VECTORS else mats).append(f"%v{i}")
    result = ", ".join(draw(st.lists(st.sampled_from([*mats, *vecs]), min_size=1, max_size=3)))
    text = (
        f'def @f(%x: {MAT}) -> {MAT} {{ dyn.tile(%x, shape_of(%x, dtype="int64")) }}\n'
        f"def @twice(%g: fn ({MAT}) -> {MAT}, %x: {MAT}) -> {MAT} {{ %g(%g(%x)) }}\n"
        f"def @both(%p: ({MAT}, {MAT})) {{ (%p.1, exp(%p.0)) }}\n"
        f"def @main(%a: Tensor[(?n, ?), float32], %b: Tensor[(?n, ?), float32], %s: {VEC}, %t: {VEC}) "
        f"{{ {' '.join(lines)} ({result},) }}\n"
    )
    return text, straight


sizes = st.integers(0, 3)
modes = st.fixed_dictionaries({"data_dependence": st.sampled_from(["input", "op"]), "place": st.sampled_from(["on", "off"])})
