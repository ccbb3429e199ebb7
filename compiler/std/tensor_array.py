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
    """The end of a name for a shape: ``2_3``; ``any`` for an unknown size, ``scalar`` for no axes."""
    return "_".join("any" if d is None else str(d) for d in shape) or "scalar"


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


#: Functions of tensor arrays of one shape; those of tensors with rows have no function for scalars.
STATIC_FUNCTIONS = (
    "tensor_take", "tensor_concatenate", "tensor_expand_dims", "tensor_get_data", "tensor_array", "tensor_array_read",
    "tensor_array_write", "tensor_array_scatter", "tensor_array_split", "tensor_array_concat", "tensor_array_stack",
    "tensor_array_gather", "tensor_array_unstack", "tensor_array_get_data",
)  # fmt: skip


def static_type(dtype: str, shape: Sequence[int | None]) -> str:
    """The name of the type of tensors of one shape."""
    return f"static_tensor_{dtype}_{suffix(shape)}_t"


def static_constructors(dtype: str, shape: Sequence[int | None]) -> tuple[str, str]:
    """The names of the constructors without a tensor, and with a tensor."""
    end = f"{dtype}_{suffix(shape)}"
    return f"tensor_nil_{end}", f"tensor_constructor_{end}"


def static_definition(dtype: str, shape: Sequence[int | None]) -> str:
    """The type of tensors of one shape; None is an unknown size."""
    nil, of = static_constructors(dtype, shape)
    return f"type {static_type(dtype, shape)} {{ {nil}, {of}({_static_tensor(shape, dtype)}) }}"


def static_shapes(shape: Sequence[int | None]) -> list[tuple[int | None, ...]]:
    """The shapes whose types ``static_text`` names: with one more axis; with any number of rows; of a row."""
    return [tuple(shape), (None, *shape), *([(None, *shape[1:]), tuple(shape[1:])] if shape else [])]


def static_text(dtype: str, shape: Sequence[int | None]) -> str:
    """The functions of tensor arrays of ``shape``; None is an unknown size."""
    t, (nil, of) = static_type(dtype, shape), static_constructors(dtype, shape)
    names = {name: f"{name}_{dtype}_{suffix(shape)}" for name in STATIC_FUNCTIONS}
    ty, grown = _static_tensor(shape, dtype), _static_tensor((None, *shape), dtype)
    grown_t, grown_of = static_type(dtype, (None, *shape)), static_constructors(dtype, (None, *shape))[1]
    stack = names["tensor_array_stack"]
    short = {key: names[f"tensor_array_{key}"] for key in ("read", "write", "scatter")}
    parts = [
        f"def @{names['tensor_get_data']}(%x: {t}) -> {ty} {{ match? (%x) {{ {of}(%t) => %t }} }}",
        f"def @{names['tensor_array_get_data']}(%ta: List[{t}], %n: int32) -> {ty} {{"
        f" @{names['tensor_get_data']}(@{names['tensor_array_read']}(%ta, %n)) }}",
        f"def @{names['tensor_expand_dims']}(%x: {t}) -> {grown_t} {{"
        f" match? (%x) {{ {of}(%t) => {{ let %r: {grown} = expand_dims(%t, axis=0); {grown_of}(%r) }} }} }}",
        _COMMON.partition("def @{concat}")[0].format(array=names["tensor_array"], t=t, nil=nil, **short),
        f"def @{stack}_data(%ta: List[{t}]) -> {grown} {{ match? (%ta) {{"
        f" Cons({of}(%t), Nil) => {{ let %r: {grown} = expand_dims(%t, axis=0); %r }},"
        f" Cons({of}(%t), %rest) => concatenate((expand_dims(%t, axis=0), @{stack}_data(%rest)), axis=0),"
        " } }",
        f"def @{stack}(%ta: List[{t}]) -> {grown_t} {{ {grown_of}(@{stack}_data(%ta)) }}",
        _gather(names, t, grown_t),
        *(_static_rows(names, dtype, shape) if shape else ()),
    ]
    return "\n".join(parts)


def _static_tensor(shape: Sequence[int | None], dtype: str) -> str:
    return f"Tensor[({', '.join('?' if d is None else str(d) for d in shape)}), {dtype}]" if shape else dtype


def _static_rows(names: dict[str, str], dtype: str, shape: Sequence[int | None]) -> list[str]:
    """The functions along the first axis of the tensors."""
    whole, several, one = tuple(shape), (None, *shape[1:]), tuple(shape[1:])
    t, rows_t, row_t = (static_type(dtype, each) for each in (whole, several, one))
    of, rows_of, row_of = (static_constructors(dtype, each)[1] for each in (whole, several, one))
    ty, rows = _static_tensor(whole, dtype), _static_tensor(several, dtype)
    concat, unstack = names["tensor_array_concat"], names["tensor_array_unstack"]
    cut = f'{{ let %r: {rows} = take(%t, arange(%low, %high, 1, dtype="int32"), axis=0); {rows_of}(%r) }}'
    return [
        f"def @{names['tensor_take']}(%x: {t}, %low: int32, %high: int32) -> {rows_t} {{ match? (%x) {{ {of}(%t) => {cut} }} }}",
        f"def @{names['tensor_concatenate']}(%x: {t}, %y: {t}) -> {rows_t} {{ match? (%x, %y) {{"
        f" ({of}(%a), {of}(%b)) => {{ let %r: {rows} = concatenate((%a, %b), axis=0); {rows_of}(%r) }} }} }}",
        f"def @{concat}_data(%ta: List[{rows_t}]) -> {rows} {{ match? (%ta) {{"
        f" Cons({rows_of}(%t), Nil) => %t,"
        f" Cons({rows_of}(%t), %rest) => concatenate((%t, @{concat}_data(%rest)), axis=0),"
        " } }",
        f"def @{concat}(%ta: List[{rows_t}]) -> {rows_t} {{ match (%ta) {{"
        f" Nil => {static_constructors(dtype, several)[0]}, _ => {rows_of}(@{concat}_data(%ta)) }} }}",
        f"def @{unstack}_from(%k: int32, %x: {ty}, %found: List[{row_t}]) -> List[{row_t}] {{\n"
        f"  if (%k == 0) {{ %found }} else {{\n"
        f"    @{unstack}_from(%k - 1, %x, Cons({row_of}(take(%x, %k - 1, axis=0)), %found))\n  }}\n}}\n"
        f"def @{unstack}(%x: {ty}) -> List[{row_t}] {{\n"
        f'  @{unstack}_from(take(shape_of(%x, dtype="int32"), 0), %x, Nil)\n}}',
        static_split(dtype, shape, shape),
    ]


def static_split(dtype: str, shape: Sequence[int | None], value: Sequence[int | None]) -> str:
    """The function that splits a tensor of the shape ``value`` into rows of tensors of ``shape``, and its loop."""
    several = (None, *shape[1:])
    names = {
        "tensor_array_split": f"tensor_array_split_{dtype}_{suffix(shape)}",
        "tensor_take": f"tensor_take_{dtype}_{suffix(value)}",
        "tensor_array_write": f"tensor_array_write_{dtype}_{suffix(several)}",
    }
    return _split(names, static_type(dtype, several), static_type(dtype, value))


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
