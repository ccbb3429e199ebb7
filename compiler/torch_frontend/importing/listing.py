"""The text of a graph for messages: a line for each node, with the line of the user's module that made it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ....vm.diagnostics.source import SourceText, Span

#: A frame of a stack trace.
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class Listing:
    """``source``: the text; ``spans``: the line of each node."""

    def __init__(self, graph: Any) -> None:
        lines = [_line(node) for node in graph.nodes]
        self.source = SourceText("<torch program>", "\n".join(lines))
        self.spans: dict[Any, Span | None] = {}
        start = 0
        for node, line in zip(graph.nodes, lines, strict=True):
            self.spans[node] = Span(self.source, start, start + len(line))
            start += len(line) + 1

    @classmethod
    def of_one(cls, graph: Any, span: Span | None) -> Listing:
        """The listing of a subgraph, whose nodes are at the place of its call."""
        made = cls.__new__(cls)
        made.spans = dict.fromkeys(graph.nodes, span)
        return made


def _line(node: Any) -> str:
    text = " ".join(str(node.format_node() or f"return {node.args[0]}").split())
    made = made_at(node)
    return f"{text}  # {made}" if made else text


def made_at(node: Any) -> str:
    """The file and the line of the user's module that made a node; "" if they are not known."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else ""
