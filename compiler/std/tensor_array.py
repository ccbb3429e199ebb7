"""Tensor arrays in Relay text: lists of tensors of any rank up to 6 (``text``), or of one shape (``static_text``), per dtype.

The names are Relay's: ``tensor_array_read_float32``, ``tensor_array_read_float32_2_3`` for the shape (2, 3).  The list is the
``List`` of the prelude.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The largest rank of a tensor in a tensor array of any rank.
MAX_RANK = 6
#: Functions of tensor arrays of any rank, for every dtype.
FUNCTIONS = (
    "tensor_take", "tensor_concatenate", "tensor_expand_dims", "tensor_array", "tensor_array_read", "tensor_array_write",
    "tensor_array_scatter", "tensor_array_split", "tensor_array_concat", "tensor_array_stack", "tensor_array_gather",
    *(f"tensor_array_unstack_tensor{rank}" for rank in range(1, MAX_RANK + 1)),
)  # fmt: skip


def suffix(shape: Sequence[int | None]) -> str:
    """The end of a name for a shape: ``2_3``; ``ANY`` for an unknown size, ``scalar`` for no axes."""
    return "_".join("ANY" if d is None else str(d) for d in shape) or "scalar"


def _tensor(rank: int, dtype: str) -> str:
    return f"Tensor[({', '.join('?' * rank)}), {dtype}]" if rank else dtype


def _by_rank(ranks: Sequence[int], body: str, dtype: str) -> str:
    """Clauses of a match on a tensor; ``{k}`` is the rank, ``{up}`` the next rank."""
    return " ".join(f"tensor{k}_{dtype}(%t) => " + body.format(k=k, up=k + 1, d=dtype) + "," for k in ranks)


#: Functions over the constructors of ``{t}``, whatever they are.
_COMMON = """
def @{array}(%n: int32) -> List[{t}] {{ if (%n == 0) {{ Nil }} else {{ Cons({nil}, @{array}(%n - 1)) }} }}
def @{read}(%ta: List[{t}], %n: int32) -> {t} {{
  match? (%ta) {{ Cons(%first, %rest) => if (%n == 0) {{ %first }} else {{ @{read}(%rest, %n - 1) }} }}
}}
def @{write}(%ta: List[{t}], %n: int32, %v: {t}) -> List[{t}] {{
  match? (%ta) {{
    Cons(%first, %rest) => if (%n == 0) {{ Cons(%v, %rest) }} else {{ Cons(%first, @{write}(%rest, %n - 1, %v)) }}
  }}
}}
def @{scatter}_from(
  %ta: List[{t}], %k: int32, %limit: int32, %indices: Tensor[(?), int32], %values: List[{t}]
) -> List[{t}] {{
  if (%k == %limit) {{ %ta }} else {{
    match? (%values) {{
      Cons(%v, %rest) => @{scatter}_from(@{write}(%ta, take(%indices, %k), %v), %k + 1, %limit, %indices, %rest)
    }}
  }}
}}
def @{scatter}(%ta: List[{t}], %indices: Tensor[(?), int32], %values: List[{t}]) -> List[{t}] {{
  @{scatter}_from(%ta, 0, take(shape_of(%indices, dtype="int32"), 0), %indices, %values)
}}
def @{concat}(%ta: List[{t}]) -> {c} {{
  match? (%ta) {{
    Cons(%t, Nil) => {grown},
    Cons(%t, %rest) => @{join}({grown}, @{concat}(%rest)),
  }}
}}
"""


def text(dtype: str) -> str:
    """The type ``tensor_{dtype}_t`` and the functions of tensor arrays of any rank.

    Rank k has the constructor ``tensork_{dtype}``; ``tensor_nil_{dtype}`` is an element that was never written.
    """
    t = f"tensor_{dtype}_t"
    names = {name: f"{name}_{dtype}" for name in FUNCTIONS}
    constructors = ", ".join(f"tensor{k}_{dtype}({_tensor(k, dtype)})" for k in range(MAX_RANK + 1))
    parts = [f"type {t} {{ tensor_nil_{dtype}, {constructors} }}"]
    cut = "{{ let %part: " + "{ty}" + ' = take(%t, arange(%low, %high, 1, dtype="int32"), axis=0); '
    takes = []
    for k in range(1, MAX_RANK + 1):
        ty = _tensor(k, dtype)
        head = cut.format(ty=ty).replace("{{", "{")
        takes.append(f"tensor{k}_{dtype}(%t) => {head}tensor{k}_{dtype}(%part) }},")
    parts.append(
        f"def @{names['tensor_take']}(%x: {t}, %low: int32, %high: int32) -> {t} {{ match? (%x) {{ {' '.join(takes)} }} }}"
    )
    joins = [
        f"(tensor{k}_{dtype}(%a), tensor{k}_{dtype}(%b)) => tensor{k}_{dtype}(concatenate((%a, %b), axis=0)),"
        for k in range(1, MAX_RANK + 1)
    ]
    parts.append(f"def @{names['tensor_concatenate']}(%x: {t}, %y: {t}) -> {t} {{ match? ((%x, %y)) {{ {' '.join(joins)} }} }}")
    grow = _by_rank(range(MAX_RANK), "tensor{up}_{d}(expand_dims(%t, axis=0))", dtype)
    parts.append(f"def @{names['tensor_expand_dims']}(%x: {t}) -> {t} {{ match? (%x) {{ {grow} }} }}")
    parts.append(_common(names, t, f"tensor_nil_{dtype}", t, names["tensor_concatenate"], "%t"))
    parts.append(
        f"def @{names['tensor_array_stack']}(%ta: List[{t}]) -> {t} {{ match? (%ta) {{"
        f" Cons(%t, Nil) => @{names['tensor_expand_dims']}(%t),"
        f" Cons(%t, %rest) => @{names['tensor_concatenate']}("
        f"@{names['tensor_expand_dims']}(%t), @{names['tensor_array_stack']}(%rest)),"
        " } }"
    )
    parts.append(_gather(names, t, t))
    parts.append(_split(names, t, t))
    parts += [_unstack(names[f"tensor_array_unstack_tensor{k}"], k, dtype, t) for k in range(1, MAX_RANK + 1)]
    return "\n".join(parts)


#: Functions of tensor arrays of one shape.
STATIC_FUNCTIONS = (
    "tensor_concatenate", "tensor_get_data", "tensor_array", "tensor_array_read", "tensor_array_write", "tensor_array_scatter",
    "tensor_array_concat", "tensor_array_stack", "tensor_array_gather", "tensor_array_unstack", "tensor_array_get_data",
)  # fmt: skip


def static_type(dtype: str, shape: Sequence[int | None]) -> str:
    """The name of the type of tensors of one shape."""
    return f"static_tensor_{dtype}_{suffix(shape)}_t"


def static_constructors(dtype: str, shape: Sequence[int | None]) -> tuple[str, str]:
    """The names of the constructors without a tensor, and with a tensor."""
    end = f"{dtype}_{suffix(shape)}"
    return f"static_tensor_nil_{end}", f"static_tensor_{end}"


def static_text(dtype: str, shape: Sequence[int | None]) -> str:
    """The type of tensors of ``shape``, and the functions of tensor arrays of that shape; None is an unknown size.

    The results of concatenations, and of stacks, are tensors of another shape: their type must be in the module, too.
    """
    t, (nil, of) = static_type(dtype, shape), static_constructors(dtype, shape)
    names = {name: f"{name}_{dtype}_{suffix(shape)}" for name in STATIC_FUNCTIONS}
    ty = _static_tensor(shape, dtype)
    rows = (None, *shape[1:])
    parts = [f"type {t} {{ {nil}, {of}({ty}) }}"]
    parts.append(f"def @{names['tensor_get_data']}(%x: {t}) -> {ty} {{ match? (%x) {{ {of}(%t) => %t }} }}")
    parts.append(
        f"def @{names['tensor_array_get_data']}(%ta: List[{t}], %n: int32) -> {ty} {{"
        f" @{names['tensor_get_data']}(@{names['tensor_array_read']}(%ta, %n)) }}"
    )
    stacked, stacked_rows = (None, *shape), _static_tensor((None, *shape), dtype)
    common = _COMMON.partition("def @{concat}")[0]
    short = {key: names[f"tensor_array_{key}"] for key in ("read", "write", "scatter")}
    parts.append(common.format(array=names["tensor_array"], t=t, nil=nil, **short))
    if shape:
        parts += _static_rows(names, t, of, ty, _static_tensor(rows, dtype))
    parts.append(
        f"def @{names['tensor_array_stack']}(%ta: List[{t}]) -> {stacked_rows} {{ match? (%ta) {{"
        f" Cons({of}(%t), Nil) => {{ let %r: {stacked_rows} = expand_dims(%t, axis=0); %r }},"
        f" Cons({of}(%t), %rest) => concatenate((expand_dims(%t, axis=0), @{names['tensor_array_stack']}(%rest)), axis=0),"
        " } }"
    )
    parts.append(_gather(names, t, _static_tensor(stacked, dtype)))
    name = names["tensor_array_unstack"]
    parts.append(
        f"def @{name}_from(%k: int32, %x: {stacked_rows}, %found: List[{t}]) -> List[{t}] {{\n"
        f"  if (%k == 0) {{ %found }} else {{ @{name}_from(%k - 1, %x, Cons({of}(take(%x, %k - 1, axis=0)), %found)) }}\n}}\n"
        f"def @{name}(%x: {stacked_rows}) -> List[{t}] {{\n"
        f'  @{name}_from(take(shape_of(%x, dtype="int32"), 0), %x, Nil)\n}}'
    )
    return "\n".join(parts)


def _static_tensor(shape: Sequence[int | None], dtype: str) -> str:
    return f"Tensor[({', '.join('?' if d is None else str(d) for d in shape)}), {dtype}]" if shape else dtype


def _static_rows(names: dict[str, str], t: str, of: str, ty: str, rows: str) -> list[str]:
    """The functions along the first axis of the tensors."""
    return [
        f"def @{names['tensor_concatenate']}(%x: {rows}, %y: {rows}) -> {rows} {{ concatenate((%x, %y), axis=0) }}",
        f"def @{names['tensor_array_concat']}(%ta: List[{t}]) -> {rows} {{ match? (%ta) {{"
        f" Cons({of}(%t), Nil) => {{ let %r: {rows} = %t; %r }},"
        f" Cons({of}(%t), %rest) => concatenate((%t, @{names['tensor_array_concat']}(%rest)), axis=0),"
        " } }",
    ]


def _common(names: dict[str, str], t: str, nil: str, c: str, join: str, grown: str) -> str:
    short = {key: names[f"tensor_array_{key}"] for key in ("read", "write", "scatter", "concat")}
    return _COMMON.format(array=names["tensor_array"], t=t, nil=nil, c=c, join=join, grown=grown, **short)


def _gather(names: dict[str, str], t: str, c: str) -> str:
    """The elements of some indices, stacked."""
    gather, read, stack = (names[f"tensor_array_{key}"] for key in ("gather", "read", "stack"))
    return (
        f"def @{gather}_from(%ta: List[{t}], %k: int32, %indices: Tensor[(?), int32], %found: List[{t}]) -> List[{t}] {{\n"
        f"  if (%k == 0) {{ %found }} else {{\n"
        f"    @{gather}_from(%ta, %k - 1, %indices, Cons(@{read}(%ta, take(%indices, %k - 1)), %found))\n  }}\n}}\n"
        f"def @{gather}(%ta: List[{t}], %indices: Tensor[(?), int32]) -> {c} {{\n"
        f'  @{stack}(@{gather}_from(%ta, take(shape_of(%indices, dtype="int32"), 0), %indices, Nil))\n}}'
    )


def _split(names: dict[str, str], t: str, value: str) -> str:
    """The parts of a tensor along its first axis, of given lengths, written over the first elements."""
    split, take, write = names["tensor_array_split"], names["tensor_take"], names["tensor_array_write"]
    return (
        f"def @{split}_from(%ta: List[{t}], %value: {value}, %low: int32, %k: int32, %limit: int32,"
        f" %lengths: Tensor[(?), int32]) -> List[{t}] {{\n"
        f"  if (%k == %limit) {{ %ta }} else {{\n"
        f"    let %high = %low + take(%lengths, %k);\n"
        f"    @{split}_from(@{write}(%ta, %k, @{take}(%value, %low, %high)), %value, %high, %k + 1, %limit, %lengths)\n  }}\n}}\n"
        f"def @{split}(%ta: List[{t}], %value: {value}, %lengths: Tensor[(?), int32]) -> List[{t}] {{\n"
        f'  @{split}_from(%ta, %value, 0, 0, take(shape_of(%lengths, dtype="int32"), 0), %lengths)\n}}'
    )


def _unstack(name: str, rank: int, dtype: str, t: str) -> str:
    """The rows of a tensor as a tensor array."""
    ty = _tensor(rank, dtype)
    return (
        f"def @{name}_from(%k: int32, %x: {ty}, %found: List[{t}]) -> List[{t}] {{\n"
        f"  if (%k == 0) {{ %found }} else {{\n"
        f"    @{name}_from(%k - 1, %x, Cons(tensor{rank - 1}_{dtype}(take(%x, %k - 1, axis=0)), %found))\n  }}\n}}\n"
        f'def @{name}(%x: {ty}) -> List[{t}] {{ @{name}_from(take(shape_of(%x, dtype="int32"), 0), %x, Nil) }}'
    )
