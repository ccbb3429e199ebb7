"""Recurrent layers over sequences: LSTM, GRU, RNN.

The products of the inputs with their weights are computed outside for all steps at once; the operators compute the recurrence.
Names and order of gates are ONNX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.products.recurrence import INPUTS, directions_of
from ....shape_funcs.symbolic.dim import Dim
from ...composition.composite import Expansion, Term, call, cast, results, widened
from ...composition.legalize import indices, legalized
from ...core.dtype_rules import INTEGERS, one_of, require, require_same
from ...core.implementation import Kernel, OpCall, Scratch
from ...core.op import DTypeRule, Legalization, Op, OpPattern, TypeRelError
from ...core.tensor_types import HALVES
from ...kernels.recurrence import cpu as bodies
from ...kernels.recurrence import cuda as cuda
from ...kernels.recurrence.activations import ACTIVATIONS, REAL_FUNCTIONS
from ...strategy.products.matmul_strategy import GEMM

#: The activations of one direction by default, and whether the operator has a further attribute.
_DEFAULTS = {"nn.lstm": ("Sigmoid", "Tanh", "Tanh"), "nn.gru": ("Sigmoid", "Tanh"), "nn.rnn": ("Tanh",)}
_TURNS = ("forward", "reverse", "bidirectional")


@frozen
class RnnAttrs:
    """``direction``: of the steps; ``activations``: ONNX's names, for each direction, () for the usual ones;
    ``activation_alpha``, ``activation_beta``: the parameters of each activation, () for the usual ones; ``clip``: bound of the
    activations' arguments, 0 for none."""

    direction: Literal["forward", "reverse", "bidirectional"] = "forward"
    activations: tuple[str, ...] = ()
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    clip: float = 0.0

    @property
    def constants(self) -> dict[str, Any]:
        """The attributes as keyword arguments of the kernel's body."""
        return self._constants(_DEFAULTS["nn.rnn"])

    def _constants(self, usual: tuple[str, ...]) -> dict[str, Any]:
        names = self.activations or usual * directions_of(self)
        known = list(ACTIVATIONS)
        return {
            "turn": _TURNS.index(self.direction),
            "codes": tuple(map(known.index, names)),
            "alphas": tuple(map(float, self.activation_alpha or (ACTIVATIONS[n][0] for n in names))),
            "betas": tuple(map(float, self.activation_beta or (ACTIVATIONS[n][1] for n in names))),
            "clip": float(self.clip),
        }


@frozen
class LstmAttrs(RnnAttrs):
    """As RnnAttrs, activations of gates, cell and state; ``input_forget``: whether the forget gate is 1 minus the input gate."""

    input_forget: bool = False

    @property
    def constants(self) -> dict[str, Any]:
        """The attributes as keyword arguments of the kernel's body."""
        return {**self._constants(_DEFAULTS["nn.lstm"]), "input_forget": self.input_forget}


@frozen
class GruAttrs(RnnAttrs):
    """As RnnAttrs, activations of gates and state; ``linear_before_reset``: whether the state is multiplied by its weight before
    the reset gate applies."""

    linear_before_reset: bool = False

    @property
    def constants(self) -> dict[str, Any]:
        """The attributes as keyword arguments of the kernel's body."""
        return {**self._constants(_DEFAULTS["nn.gru"]), "linear_before_reset": self.linear_before_reset}


def _rule(op: str) -> DTypeRule:
    _, others, states = INPUTS[op]
    names = ("projected", "weight", *others)

    def rule(dtypes: tuple[Any, ...], attrs: RnnAttrs) -> tuple[str, ...]:
        dtype = require_same(op, dtypes, range(len(names) - 1), names)
        require(op, dtype, (*REAL_FUNCTIONS, *HALVES), 0, names[0])
        require(op, dtypes[-1], INTEGERS, len(names) - 1, names[-1])
        count = len(_DEFAULTS[op]) * directions_of(attrs)
        for name in attrs.activations:
            one_of(op, "activations", name, tuple(ACTIVATIONS))
        for name in ("activations", "activation_alpha", "activation_beta"):
            given = len(getattr(attrs, name))
            if given not in (0, count):
                raise TypeRelError(f"{op}: {name} has {given} elements; {attrs.direction} has {count} activations")
        if not 0 <= attrs.clip < float("inf"):
            raise TypeRelError(f"{op}: clip={attrs.clip!r} is no finite bound of at least 0")
        return (dtype,) * (1 + states)

    return rule


def _of_halves(op: Op, inputs: tuple[Term, ...], attrs: RnnAttrs) -> tuple[Term, ...]:
    """A recurrence of halves in float32: a state is rounded once, not in each step."""
    found = results(call(op, *widened(*inputs), attrs=attrs))
    return tuple(cast(result, inputs[0].dtype) for result in found)


def _legalization(inputs: int) -> Legalization:
    """The legalization of a recurrence of so many inputs: of halves, and of lengths of other dtypes than those of indices."""
    plain = indices(inputs - 1)

    def expand(op: Op, terms: tuple[Term, ...], attrs: RnnAttrs) -> Expansion:
        expanded: Expansion = (_of_halves if terms[0].dtype in HALVES else plain.expand)(op, terms, attrs)
        return expanded

    return legalized(lambda dtypes, attrs: dtypes[0] in HALVES or plain.applies(dtypes, attrs), expand)


def _rows(given: OpCall) -> Dim:
    """The number of units of the whole batch."""
    return given.inputs[0].shape[1] * given.inputs[1].shape[2]


def _recurrence(name: str, doc: str, attrs: type, by_dtype: dict[str, Any], on_cuda: Callable[[Any], Any], *scratch: int) -> None:
    """``scratch``: the sizes of the scratch buffers, in numbers per unit and sequence."""

    def of(count: int) -> Scratch:
        return Scratch(length=lambda given: _rows(given) * count)

    Op(
        name=name,
        doc=doc,
        inputs=("projected", "weight", *INPUTS[name][1]),
        attrs=attrs,
        pattern=OpPattern.OPAQUE,
        dtype=_rule(name),
        kernels=(
            Kernel(
                name.removeprefix("nn."),
                by_dtype["float32"],
                attrs=lambda attrs: attrs.constants,
                views=("dims", "dims", "flat"),
                scratch=tuple(map(of, scratch)),
                libraries=GEMM,
                choose=lambda attrs, dtypes: by_dtype[dtypes[0]],
                cuda=on_cuda,
                refuses=True,
            ),
        ),
        legalization=_legalization(len(INPUTS[name][1]) + 2),
    )


_recurrence(
    "nn.lstm",
    "A long short-term memory: from `projected[steps, batch, directions * 4 * units]`, the inputs times their weights plus all "
    "biases, of the gates of input, output, forget and cell; `weight[directions, 4 * units, units]` for the state before; "
    "`peepholes[directions, 3 * units]` of input, output, forget. The states `[steps, directions, batch, units]`, the last "
    "states and the last cells. `lengths[batch]` are at most `steps`: what follows is 0.",
    LstmAttrs, bodies.LSTM, cuda.lstm, 4,
)  # fmt: skip
_recurrence(
    "nn.gru",
    "A gated recurrent unit: as `nn.lstm` of the gates of update and reset and the new state; `reset_bias[directions, units]` is "
    "added to the product of state and weight of the new state. The states of all steps and the last states.",
    GruAttrs, bodies.GRU, cuda.gru, 3, 2,
)  # fmt: skip
_recurrence(
    "nn.rnn",
    "A recurrent layer: as `nn.lstm` with the new state as the only gate. The states of all steps and the last states.",
    RnnAttrs, bodies.RNN, cuda.rnn, 1,
)  # fmt: skip
