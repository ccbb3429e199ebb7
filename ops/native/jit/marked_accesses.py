"""Marks of loads and stores whose vectors use the memory bus early, or past the caches, once the loops have vectors.

LLVM vectorises no loop that asks for a cache line, and no loop with a non-temporal store of an element.  It keeps a mark on an
element's access, however, for the vectors' accesses.  So accesses are marked when they are emitted, and the text of the optimized
module is completed: a load marked AHEAD also asks for the cache line AHEAD_BYTES further; a store marked PAST whose vector is
known to be aligned becomes non-temporal.  Accesses of single elements stay as they are.

Marks are memory model relaxation annotations (LLVM's ``mmra``), which mean nothing to a processor that declares none.  They are
metadata of the module before its optimization.  What they ask for cannot be: LLVM would vectorise neither loop.  Behind the
optimization a module is LLVM's own, and llvmlite's binding inserts no instruction and attaches no metadata there: only text does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

AHEAD, PAST = "ahead", "past"
#: The distance of the line that is asked for.  A line takes 160 ns from memory, while a kernel computes with 20 to 80 lines.
AHEAD_BYTES = 8192
_OWNER = "relayvm"
_MARK = re.compile(rf'^!(\d+) = !{{!"{_OWNER}", !"(\w+)"}}$', re.M)
_LOAD = re.compile(r"^  %\S+ = load <[^>]+>, ptr (%[^,\s]+),.* !mmra !(\d+)")
_STORE = re.compile(r"^  store <(\d+) x (\w+)> .*, ptr [^,\s]+, align (\d+).* !mmra !(\d+)")
_PREFETCH = "declare void @llvm.prefetch.p0("
_BYTES = {"float": 4, "double": 8, "ptr": 8}


def marked(emitter: Any, mark: str, kind: str, emit: Callable[[], Any]) -> Any:
    """Emit code, and mark its last instruction of the kind, "load" or "store"."""
    from ..front_end.llvm.instructions import annotate

    result = emit()
    annotate(emitter.builder.block, kind, "mmra", [_OWNER, mark])
    return result


def is_needed(text: str) -> bool:
    """Whether a module, as text, has marked accesses."""
    return f'!"{_OWNER}"' in text


def complete(text: str) -> str:
    """The text of an optimized module with the requests for cache lines and the non-temporal stores that its marks ask for."""
    marks, lines, number = dict(_MARK.findall(text)), [], 0
    for line in text.splitlines():
        if (load := _LOAD.match(line)) and marks.get(load[2]) == AHEAD:
            number += 1
            name = f'%"{_OWNER}.{AHEAD}.{number}"'
            lines += [line, f"  {name} = getelementptr i8, ptr {load[1]}, i64 {AHEAD_BYTES}"]
            line = f"  call void @llvm.prefetch.p0(ptr {name}, i32 0, i32 2, i32 1)"  # a read, into the second cache, data
        elif (store := _STORE.match(line)) and marks.get(store[4]) == PAST:
            nbytes = int(store[1]) * (_BYTES.get(store[2]) or int(store[2][1:]) // 8)
            if int(store[3]) >= nbytes:
                line += ", !nontemporal !{i32 1}"
        lines.append(line)
    if number and _PREFETCH not in text:
        lines.append(f"{_PREFETCH}ptr, i32, i32, i32)")
    return "\n".join(lines) + "\n"
