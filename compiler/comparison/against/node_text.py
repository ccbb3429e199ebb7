"""The comparison of a model's values on two runtimes as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....vm.inspection.figures import align, time_text
from .node_comparison import NodeComparison, NodeError

#: The values with the largest differences that are listed.
LISTED = 10


def node_text(found: NodeComparison) -> str:
    """Results, times, the first node that differs with its inputs, and the largest differences."""
    own, other = found.names
    values = f", {len(found.nodes)} values of nodes" if found.nodes else ""
    lines = [f"{found.file}: {own} against {other}{values}"]
    lines += [f"result {e.value.name}, {kind_text(e)}: {verdict(e)}" for e in found.results]
    lines.append(_times(found))
    if found.missing:
        lines.append(f"not compared: {', '.join(found.missing)}")
    lines += _first(found)
    worst = sorted((e for e in found.nodes if e.largest), key=lambda e: -e.relative)[:LISTED]
    if worst:
        rows = [
            (f"{e.relative:.2g}", f"{e.largest:.3g}", f"{e.scale:.3g}", kind_text(e), e.value.label, e.value.name) for e in worst
        ]
        header = ("of largest", "Difference", "Largest", "Type", "Node", "Value")
        lines += ["the largest differences:", align([header, *rows], (3, 4, 5))]
    return "\n".join(lines)


def _first(found: NodeComparison) -> Iterator[str]:
    first = found.first
    if not found.nodes:
        return
    if first is None:
        yield "each node agrees, from the same inputs" if found.apart else "each value of a node agrees"
        if any(e.mismatch is not None for e in found.results):
            yield "the results differ though: roundings add up, or the nodes that one kernel computes; try --against fuse=off"
        return
    yield f"the first node that differs: {first.value.label}, its value {first.value.name}, {kind_text(first)}: {verdict(first)}"
    mismatch = first.mismatch
    assert mismatch is not None, "the first value differs"
    for element in mismatch.elements:
        yield f"    at {list(element.index)}: {element.first} and {element.second}"
    by_name = {e.value.name: e for e in found.nodes}
    for name in dict.fromkeys(first.value.inputs):
        if name in by_name:
            same = "the same" if found.apart else verdict(by_name[name])
            yield f"    its input {name}, {kind_text(by_name[name])}: {same}"


def verdict(e: NodeError) -> str:
    """Whether a value agrees, and its largest difference."""
    size = f"largest difference {e.largest:.3g} of {e.scale:.3g}"
    if e.mismatch is None:
        return f"agrees, {size}"
    if not e.mismatch.elements:
        return f"{e.mismatch.kinds[0]} and {e.mismatch.kinds[1]}"
    return f"{e.mismatch.count} of {e.mismatch.size} elements differ, {size}"


def kind_text(e: NodeError) -> str:
    """The type of a value."""
    return f"{e.dtype}[{', '.join(map(str, e.shape))}]"


def _times(found: NodeComparison) -> str:
    texts = [f"{time_text(m)} [{_span(times)}]" for m, times in zip(found.medians_ns, found.times_ns, strict=True)]
    return (
        f"time of a run: {texts[0]} and {texts[1]}, {found.medians_ns[0] / max(1, found.medians_ns[1]):.2f} of {found.names[1]}"
    )


def _span(times: Sequence[int]) -> str:
    return f"{time_text(min(times))}..{time_text(max(times))}"
