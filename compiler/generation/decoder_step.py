"""A step of a decoder: the meaning of its inputs and results, by their names or as a caller says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import TensorType, TupleType, is_float, is_integer
from ...shape_funcs.symbolic.dim import Dim, const, dim, name_of
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.anf import with_annotations
from ..ir.expr import Function, IRModule, Var, type_of
from ..ir.signature_attrs import OUTPUT_NAMES
from ..passes.infer_type import infer_type
from ..passes.to_a_normal_form import to_a_normal_form
from ..type_inference.type_match import map_dims

#: The names of inputs, as exporters for onnxruntime give them.
TOKENS, MASK, POSITIONS, LOGITS = "input_ids", "attention_mask", "position_ids", "logits"
#: The name of a cache before and after a step; what follows is the same in both, such as ``.0.key``.
_PAST, _PRESENT = re.compile(r"past(_key_values)?(?=\W|_|\d)(.*)"), re.compile(r"present(_key_values)?(?=\W|_|\d)(.*)")
#: The name of a cache before a step in a program of torch: of an argument of a module, with the path of a tensor in it.
_ARGUMENT = re.compile(r"(past(_key_values)?|cache)_.*")


@frozen
class DecoderStep:
    """A step ``main`` with the numbers of its parameters and results.

    ``mask`` and ``positions`` are -1 where the step has none.  ``caches``: pairs of a parameter and the result that follows it.
    """

    module: IRModule
    tokens: int
    mask: int
    positions: int
    caches: tuple[tuple[int, int], ...]
    logits: int

    @property
    def main(self) -> Function:
        """The function of the step."""
        return self.module["main"]

    def type(self, number: int) -> TensorType:
        """The declared type of a parameter."""
        ty = self.main.params[number].annotation
        assert isinstance(ty, TensorType)
        return ty

    @property
    def floats(self) -> str:
        """The dtype of the logits."""
        ty = type_of(self.main.body)
        found = ty.fields[self.logits] if isinstance(ty, TupleType) else ty
        assert isinstance(found, TensorType)
        return found.dtype

    def axis(self, number: int) -> int:
        """The axis of the positions in a cache: the last one of no known size."""
        return max(axis for axis, d in enumerate(self.type(number).shape) if const(d) is None)

    def with_sizes(self, count: int | None, past: int | None) -> Function:
        """``main`` for so many tokens and positions before them; None: any number."""
        return with_sizes(
            self.main,
            {(n, 1): count for n in (self.tokens, self.positions) if n >= 0 and count is not None}
            | {(n, self.axis(n)): past for n, _ in self.caches if past is not None},
        )


def with_sizes(function: Function, sizes: Mapping[tuple[int, int], int]) -> Function:
    """A copy of the function with known sizes of axes of parameters: ``(parameter, axis)``; equal names are equal sizes."""
    annotations = [p.annotation for p in function.params]
    named: dict[str, Dim] = {}
    for (number, axis), size in sizes.items():
        ty = annotations[number]
        assert isinstance(ty, TensorType)
        if (name := name_of(ty.shape[axis])) is not None:
            named[name] = dim(size)
        annotations[number] = TensorType((*ty.shape[:axis], dim(size), *ty.shape[axis + 1 :]), ty.dtype)
    known = [None if ty is None else map_dims(ty, lambda d: named.get(name_of(d) or "", d)) for ty in annotations]
    return with_annotations(function, known, None)


def decoder_step(
    module: IRModule,
    caches: Mapping[str, str] | None = None,
    tokens: str | None = None,
    mask: str | None = None,
    positions: str | None = None,
    logits: str | None = None,
) -> DecoderStep:
    """The step that ``main`` of a module is.  ``caches``: results by the parameters that they follow; other names as ``loop``.

    Raises ArgumentError for a step whose inputs and results have no such meaning.
    """
    module = infer_type(to_a_normal_form(module))
    main = module["main"]
    inputs = [p.name for p in main.params]
    results = _result_names(main)
    pairs = _pairs(inputs, results) if caches is None else caches
    if not pairs:
        help = "name them: caches={parameter: result}, such as {'past_key_values.0.key': 'present.0.key'}"
        raise ArgumentError(f"loop: the step has no pair of past and present; {_listed(inputs, results)}", here(), help=help)
    numbers = tuple((_number(inputs, a, "parameter"), _number(results, b, "result")) for a, b in pairs.items())
    given = {"tokens": tokens or _usual(inputs, TOKENS), "mask": mask or _usual(inputs, MASK)}
    given["positions"] = positions or _usual(inputs, POSITIONS)
    of = {what: -1 if name is None else _number(inputs, name, "parameter") for what, name in given.items()}
    if of["tokens"] < 0:
        raise ArgumentError(f"loop: the step has no parameter %{TOKENS}", here(), help="name its tokens: tokens='...'")
    left = [name for k, name in enumerate(inputs) if k not in {*of.values(), *(a for a, _ in numbers)}]
    if left:
        help = "params= makes constants of parameters; tokens=, mask=, positions= and caches= name others"
        raise ArgumentError(f"loop: the step has parameters of no known meaning: {', '.join(left)}", here(), help=help)
    of_logits = _number(results, logits or (LOGITS if LOGITS in results else results[0]), "result")
    step = DecoderStep(module, of["tokens"], of["mask"], of["positions"], numbers, of_logits)
    _check(step)
    return step


# ---- names ---------------------------------------------------------------------------------------------------------------


def _result_names(main: Function) -> list[str]:
    """The names of the results; their numbers where they have none."""
    names: Sequence[str] = main.attrs.get(OUTPUT_NAMES, ())
    ty = type_of(main.body)
    count = len(ty.fields) if isinstance(ty, TupleType) else 1
    return list(names) or [str(k) for k in range(count)]


def _pairs(inputs: Sequence[str], results: Sequence[str]) -> dict[str, str]:
    """The results by the parameters whose names have the same end.

    Results of torch have no names: the caches follow the logits, in the order in which a module takes them.
    """
    after = {found[2]: name for name in results if (found := _PRESENT.fullmatch(name))}
    if after:
        return {name: after[found[2]] for name in inputs if (found := _PAST.fullmatch(name)) and found[2] in after}
    before = [name for name in inputs if _ARGUMENT.fullmatch(name)]
    return dict(zip(before, results[1:], strict=True)) if len(before) == len(results) - 1 else {}


def _usual(inputs: Sequence[str], name: str) -> str | None:
    return name if name in inputs else None


def _number(names: Sequence[str], name: Any, what: str) -> int:
    if name not in names:
        hint = nearest(str(name), list(names), "{!r}")
        raise ArgumentError(f"loop: the step has no {what} {name!r}{hint}", here(), help=f"it has {', '.join(names)}")
    return names.index(name)


def _listed(inputs: Sequence[str], results: Sequence[str]) -> str:
    return f"its parameters are {', '.join(inputs)}, its results {', '.join(results)}"


# ---- types ---------------------------------------------------------------------------------------------------------------


def _check(step: DecoderStep) -> None:
    """Raises ArgumentError for types that are not those of a decoder."""
    params = step.main.params
    for number, what in ((step.tokens, "tokens"), (step.mask, "mask"), (step.positions, "positions")):
        ty = params[number].annotation
        if number >= 0 and not (isinstance(ty, TensorType) and ty.rank == 2 and is_integer(ty.dtype)):
            raise _unfit(params[number], f"{what} are integers [batch, positions]")
    for number, _ in step.caches:
        ty = params[number].annotation
        is_open = isinstance(ty, TensorType) and ty.rank > 1 and any(const(d) is None for d in ty.shape[1:])
        if not is_open:
            raise _unfit(params[number], "a cache has an axis of positions of any size, after the batch")
    results = type_of(step.main.body)
    ty = results.fields[step.logits] if isinstance(results, TupleType) else results
    if not (isinstance(ty, TensorType) and ty.rank == 3 and is_float(ty.dtype)):
        raise ArgumentError(f"loop: the logits are {ty}", here(), help="they are floats [batch, positions, tokens]")


def _unfit(param: Var, help: str) -> ArgumentError:
    return ArgumentError(f"loop: %{param.name} is {param.annotation}", here(), help=help)
