"""Growth of a random ONNX graph: node by node, each with its values by ONNX's reference."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTEGERS = ("int64", "int64", "int32", "int8", "uint8")
#: Sizes of axes: 0 and 1 are sizes.
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5)
MOST_ELEMENTS = 2000
#: The largest number of a tensor: sums of products of such are exact.
LARGEST = {"float16": 200.0, "float32": 3000.0, "float64": 1e5, "int64": 1e6, "int32": 1e6}

#: Operators of which the reference is wrong: it puts the rows of a Loop's rounds behind each other, not on a new axis, its
#: largest element of a picture has no axes for rows and columns, it does not pad for SAME_LOWER, it divides by signed sums, and
#: before version 14 it normalises by the batch.
UNTRUSTED = ("Loop", "GlobalMaxPool", "MaxPool", "LpNormalization", "BatchNormalization")


@dataclass(frozen=True)
class Drawn:
    """A value at the sizes of the draw.  ``exact``: no operator before it rounds, so that every evaluator has the same bits."""

    array: np.ndarray
    exact: bool

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    @property
    def rank(self) -> int:
        return self.array.ndim


class Drawing:
    """A graph, or the body of a node: its nodes, inputs and stored values so far.  ``values`` has those of the graphs around it.

    ``fixed``: inputs whose values are the same at other sizes, such as axes.
    """

    def __init__(self, r: random.Random, opset: int, outer: Drawing | None = None) -> None:
        self.r, self.opset, self.outer = r, opset, outer
        self.values: dict[str, Drawn] = dict(outer.values) if outer else {}
        self.own: list[str] = []
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.fixed: set[str] = set() if outer is None else outer.fixed
        self.stored: dict[str, np.ndarray] = {}
        self._numbers: Any = outer._numbers if outer else itertools.count()
        self.sizes: dict[str, int] = outer.sizes if outer else {n: r.choice(SIZES) for n in "nmk"}

    # ---- values ------------------------------------------------------------------------------------------------------

    def name(self, letter: str = "v") -> str:
        """A new name; no graph around uses it."""
        return f"{letter}{next(self._numbers)}"

    def numbers(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """Small whole numbers, and halves of such."""
        rng = np.random.default_rng(self.r.getrandbits(32))
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        made = rng.integers(0 if dtype[0] == "u" else -4, 5, shape)
        halves = "float" in dtype and self.r.random() < 0.3
        return np.asarray(made / 2 if halves else made).astype(dtype)

    def input(self, dtype: str, shape: Sequence[str | int]) -> str:
        """A new input; names among its sizes are open.  Raises LookupError in a body."""
        if self.outer is not None:
            raise LookupError
        array = self.numbers(dtype, [self.sizes[d] if isinstance(d, str) else d for d in shape])
        return self.given(array, tuple(shape))

    def given(self, array: np.ndarray, shape: tuple[Any, ...], name: str = "") -> str:
        name = name or self.name("x")
        self.inputs[name] = shape
        self.values[name] = Drawn(array, True)
        self.own.append(name)
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """A tensor whose values a node needs: stored, made by a node, or an input."""
        array = np.asarray(value, dtype)
        form = self.r.random()
        name = self.name("c")
        self.values[name] = Drawn(array, True)
        if form < 0.12 and self.outer is None:
            self.inputs[name] = tuple(None if self.r.random() < 0.3 else d for d in array.shape)
            self.fixed.add(name)
        elif form < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.stored[name] = array
        return name

    def pick(self, dtypes: Iterable[str] = (), rank: int | None = None, least: int = 0, **wanted: Any) -> str:
        """A value of one of the dtypes and of that rank, young ones more often.  ``exact``: rounded by no operator.  ``full``: it
        has elements.  Raises LookupError."""
        kinds, found = tuple(dtypes), list[str]()
        for name, v in self.values.items():
            if name[0] == "c" or (kinds and v.dtype not in kinds) or (rank is not None and v.rank != rank) or v.rank < least:
                continue
            if (wanted.get("exact") and not v.exact) or (wanted.get("full") and not v.array.size):
                continue
            found.append(name)
        if not found:
            raise LookupError
        young = found[-6:]
        return self.r.choice(young if self.r.random() < 0.7 else found)

    def like(self, name: str) -> str:
        """A value of the same dtype whose shape broadcasts with that of ``name``."""
        shape, dtype = self.values[name].array.shape, self.values[name].dtype
        found = [n for n, v in self.values.items() if n[0] != "c" and v.dtype == dtype and _broadcasts(v.array.shape, shape)]
        if found and self.r.random() < 0.7:
            return self.r.choice(found)
        part = shape[self.r.randrange(len(shape) + 1) :]
        return self.constant(self.numbers(dtype, [d if self.r.random() < 0.8 else 1 for d in part]), dtype)

    def axis(self, name: str) -> int:
        """An axis of a value, maybe counted from the end.  Raises LookupError for a scalar."""
        rank = self.values[name].rank
        if not rank:
            raise LookupError
        return self.r.randrange(-rank, rank)

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, exact: bool | None = None, **attrs: Any) -> list[str]:
        """A new node; its outputs.  ``exact``: whether it does not round (None: where its inputs are exact).

        Raises Refused where the reference does not take it, and where a result is not fit for the campaign.
        """
        node = helper.make_node(op, list(inputs), [self.name() for _ in range(outputs)], **attrs)
        results = evaluated(node, self.opset, {n: v.array for n, v in self.values.items()})
        read = [self.values[n].exact for n in names_read(node) if n in self.values]
        made = [Drawn(np.asarray(x), all(read) if exact is None else exact and all(read)) for x in results]
        for v in made:
            check(v)
        for name, v in zip(node.output, made, strict=True):
            self.values[name] = v
            self.own.append(name)
        self.nodes.append(node)
        return list(node.output)


class Refused(Exception):
    """A node that the reference refuses, or whose results are not fit."""


def check(v: Drawn) -> None:
    """Raise Refused for a value that is too large, not finite, or of a dtype that few operators take."""
    array = v.array
    if array.dtype.name not in {*FLOATS, *INTEGERS, "bool"} or array.size > MOST_ELEMENTS or array.ndim > 5:
        raise Refused(array.dtype.name)
    if array.size and array.dtype.kind in "fi":
        largest = LARGEST.get(array.dtype.name)
        if not np.isfinite(array).all() or (largest is not None and np.abs(array.astype("float64")).max() > largest):
            raise Refused("too large")


def names_read(node: NodeProto) -> set[str]:
    """The values that a node, and the graphs in it, read."""
    found = {n for n in node.input if n}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            inner = attribute.g
            defined = (
                {v.name for v in inner.input} | {t.name for t in inner.initializer} | {o for n in inner.node for o in n.output}
            )
            found |= {n for k in inner.node for n in names_read(k)} | {o.name for o in inner.output}
            found -= defined
    return found


def evaluated(node: NodeProto, opset: int, values: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The results of a node.  Raises Refused."""
    read = sorted(n for n in names_read(node) if n in values)
    given, outputs = [info(n, values[n].dtype.name, values[n].shape) for n in read], [ValueInfoProto(name=n) for n in node.output]
    model, inputs = model_of(helper.make_graph([node], "one", given, outputs), opset), {n: values[n] for n in read}
    try:
        results = (by_onnxruntime if node.op_type in UNTRUSTED else quietly)(model, inputs)
    except Exception as error:  # the reference raises whatever numpy raises
        raise Refused(str(error)) from None
    if any(isinstance(x, list) or x is None for x in results):
        raise Refused("a sequence")
    return results


def by_onnxruntime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Any]:
    """onnxruntime's results.  Raises whatever it raises."""
    return list(session(model.SerializeToString()).run(None, inputs))


def session(data: bytes) -> Any:
    """onnxruntime with a model, on one thread, without optimizations and messages.  Raises whatever it raises."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def quietly(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[Any]:
    """The reference's results.  Raises whatever it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return list(ReferenceEvaluator(model).run(None, inputs))


def model_of(graph: GraphProto, opset: int) -> onnx.ModelProto:
    """A model of the standard's operators."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def info(name: str, dtype: str, shape: Sequence[Any] | None) -> ValueInfoProto:
    """A declared value; None among its sizes is an open size without a name."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
