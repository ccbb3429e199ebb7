"""The program around a step: the loop that writes texts, as text, for the types of the step.

The prompts of a batch end in one column: a shorter prompt has columns before it, which its mask hides.  The function
``first_step`` is the step over the prompts, without a past; ``next_step`` is the step of one token.
"""

from __future__ import annotations

from string import Template

from ...ops.core.tensor_types import TensorType, dim_text
from ...shape_funcs.symbolic.dim import const
from ..ir.expr import IRModule, replace
from ..passes.beta_reduction import with_calls_inlined
from ..text.parser import parse
from .decoder_step import DecoderStep

FIRST, NEXT = "first_step", "next_step"

_PROGRAM = Template("""#[version = "0.0.5"]
def @main(
  %prompts: Tensor[($batch, ?s), $ints],   // each ends in the last column
  %lengths: Tensor[($batch), int64],
  %limit: int64,                       // the most tokens to write, at least 1; %pad follows the end of a text
  %stops: Tensor[(?k), $ints],         // a text ends after one of these
  %pad: $ints,
  // the number of a function in Python: it gets each row of tokens and answers whether the texts end; 0: none
  %listener: int64$more
) -> Tensor[(?, $batch), $ints] {
  let %shape = shape_of(%prompts, dtype="int64");
  let %b = take(%shape, 0);
  let %s = take(%shape, 1);
  let %starts = expand_dims(subtract(%s, %lengths), axis=1);
  let %columns = expand_dims(arange(0i64, %s, 1i64, dtype="int64"), axis=0);
  let %positions = maximum(subtract(%columns, %starts), 0i64);
  $nothing
  let %out = @$first($first_args);
  let %logits = take(%out.$logits, -1, axis=1, mode="wrap");
  $begin
  let %chosen = @choose(%logits$draw);
  let %blank = dyn.zeros(stack((%limit, %b)), dtype="$ints");
  let %going = dyn.zeros(stack((%b,)), dtype="bool");
  @write(%chosen.0, %blank, 0i64, %going, %starts, %limit, %stops, %pad, %listener, %columns$passed$presents)
}

// %token follows the positions of the caches, whose numbers are %before; %texts has %i rows so far.
def @write(
  %token: Tensor[($batch), $ints], %texts: Tensor[(?l, $batch), $ints], %i: int64, %ended: Tensor[($batch), bool],
  %starts: Tensor[($batch, 1), int64], %limit: int64, %stops: Tensor[(?k), $ints], %pad: $ints, %listener: int64,
  %before: Tensor[(1, ?n), int64]$typed$caches
) -> Tensor[(?, $batch), $ints] {
  let %longer = scatter_nd(%texts, expand_dims(arange(%i, %i + 1i64, 1i64, dtype="int64"), axis=0), expand_dims(%token, axis=0));
  let %over = logical_or(%ended, any(equal(expand_dims(%token, axis=1), %stops), axis=[1]));
  let %heard = if (%listener > 0i64) { host_function(%listener, %token) } else { False };
  let %last = if (%i + 1i64 >= %limit) { True } else { all(%over) };
  let %done = if (%heard) { True } else { %last };
  if (%done) { slice_like(%longer, arange(0i64, %i + 1i64, 1i64, dtype="int64"), axes=[0]) } else {
    let %n = take(shape_of(%before, dtype="int64"), 1);
    let %columns = concatenate((%before, reshape(%n, newshape=[1, 1])), axis=1);
    let %positions = subtract(%n, %starts);
    let %out = @$next($next_args);
    let %logits = take(%out.$logits, 0, axis=1);
    let %chosen = @choose(%logits$draw);
    let %row = where(%over, %pad, %chosen.0);
    @write(%row, %longer, %i + 1i64, %over, %starts, %limit, %stops, %pad, %listener, %columns$passed$presents)
  }
}
$choose""")

_GREEDY = """
def @choose(%logits: Tensor[($batch, ?v), $floats], Inline=1) { (cast(argmax(%logits, axis=[1]), dtype="$ints"), 0) }
"""

#: The parameters of draws: names, types, and comments.
_DRAWS = """,
  %temperature: float32,               // 0: the most likely token; else the divisor of the logits before a token is drawn
  %top_k: int32,                       // a draw is from the most likely tokens, so many,
  %top_p: float32,                     // and of these from those that make up so much of their probability
  %seed: uint64"""

_DRAWN = """
def @choose(
  %logits: Tensor[($batch, ?v), $floats], %key: Tensor[(10), uint64],
  %temperature: float32, %top_k: int32, %top_p: float32, Inline=1
) -> (Tensor[($batch), $ints], Tensor[(10), uint64]) {
  if (%temperature > 0f) {
    let %sorted = topk(cast(%logits, dtype="float32") / %temperature, k=$candidates, axis=1);
    let %ranks = arange(0, $candidates, 1, dtype="int32");
    let %likely = where(%ranks < maximum(%top_k, 1), %sorted.0, -1e38f);
    let %chances = nn.softmax(%likely);
    let %before = cumsum(%chances, axis=1) - %chances;
    let %found = random.multinomial(%key, where(%before < maximum(%top_p, 1e-9f), %chances, 0f), num_samples=1);
    (cast(squeeze(gather(%sorted.1, %found.1, axis=1), axis=[1]), dtype="$ints"), %found.0)
  } else { (cast(argmax(%logits, axis=[1]), dtype="$ints"), %key) }
}
"""

_KEY = """let %key = concatenate(
    (expand_dims(%seed, axis=0), [0u64, 0u64, 0u64, 0u64, 0u64, 0u64, 0u64, 9223372036854775808u64, 0u64]));"""


def program(step: DecoderStep, candidates: int = 0) -> IRModule:
    """The module that writes texts; ``candidates``: the most tokens that a draw chooses from, 0: there are no draws."""
    ints, drawn = step.type(step.tokens).dtype, candidates > 0
    none = {_empty(step.type(n), step.axis(n)): None for n, _ in step.caches}
    names = {text: f"%none{k}" for k, text in enumerate(none)}
    past = {n: names[_empty(step.type(n), step.axis(n))] for n, _ in step.caches}
    batch = step.type(step.tokens).shape[0]
    fields = {
        "batch": "?b" if const(batch) is None else dim_text(batch),
        "ints": ints, "floats": step.floats, "first": FIRST, "next": NEXT, "logits": step.logits,
        "candidates": candidates,
        "nothing": "\n  ".join(f"let {name} = {text};" for text, name in names.items()),
        "first_args": _arguments(step, "%prompts", past),
        "next_args": _arguments(step, "expand_dims(%token, axis=1)", {n: f"%c{k}" for k, (n, _) in enumerate(step.caches)}),
        "presents": "".join(f", %out.{result}" for _, result in step.caches),
        "caches": "".join(f",\n  %c{k}: {_cache(step.type(n), step.axis(n))}" for k, (n, _) in enumerate(step.caches)),
        "more": _DRAWS if drawn else "", "begin": _KEY if drawn else "",
        "draw": ", %key, %temperature, %top_k, %top_p" if drawn else "",
        "passed": ", %chosen.1, %temperature, %top_k, %top_p" if drawn else "",
        "typed": ",\n  %key: Tensor[(10), uint64], %temperature: float32, %top_k: int32, %top_p: float32" if drawn else "",
    }  # fmt: skip
    fields["choose"] = Template(_DRAWN if drawn else _GREEDY).substitute(fields)
    around = parse(_PROGRAM.substitute(fields))
    steps = {FIRST: step.with_sizes(None, 0), NEXT: step.with_sizes(1, None)}
    others = {name: f for name, f in step.module.functions.items() if name != "main"}
    whole = with_calls_inlined(replace(step.module, functions={**others, **steps, **around.functions}), set(steps), checked=True)
    return replace(whole, functions={name: f for name, f in whole.functions.items() if name not in steps})


def _arguments(step: DecoderStep, tokens: str, caches: dict[int, str]) -> str:
    """The arguments of a step in the order of its parameters."""
    given = {step.tokens: tokens, **caches}
    if step.mask >= 0:
        given[step.mask] = f'cast(greater_equal(%columns, %starts), dtype="{step.type(step.mask).dtype}")'
    if step.positions >= 0:
        given[step.positions] = f'cast(%positions, dtype="{step.type(step.positions).dtype}")'
    return ", ".join(given[number] for number in sorted(given))


def _sizes(ty: TensorType, axis: int, positions: str, batch: str, known: str) -> str:
    """The sizes of a cache as text: the axis of positions, numbers, and the batch."""
    return ", ".join(
        positions if a == axis else batch if const(d) is None else known.format(dim_text(d)) for a, d in enumerate(ty.shape)
    )


def _empty(ty: TensorType, axis: int) -> str:
    return f'dyn.zeros(stack(({_sizes(ty, axis, "0i64", "%b", "{}i64")})), dtype="{ty.dtype}")'


def _cache(ty: TensorType, axis: int) -> str:
    return f"Tensor[({_sizes(ty, axis, '?n', '?b', '{}')}), {ty.dtype}]"
