"""plan_memory: views, in-place reuse, storages and arenas of small programs, as text.

Each file of ``plan_memory/`` is a program, ``// -----``, and the program after the pass.  The first line has the options.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext

from ...golden_texts import Golden, read_case
from ...programs import HEADER
from .overlaps import dead_reads
from .planned import planned

CASES = sorted(Path(__file__).with_name("plan_memory").glob("*.relay"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_before_and_after(path: Path, golden: Golden) -> None:
    case = read_case(path)
    mod = planned(HEADER + case.program, **case.options)
    golden.check_case(path, astext(mod).removeprefix(HEADER))
    assert astext(parse(astext(mod))) == astext(mod)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_nobody_reads_dead_bytes(path: Path) -> None:
    case = read_case(path)
    static = case.program.replace("?n", "3").replace("?m", "4")
    assert dead_reads(planned(HEADER + static, **case.options)) == []
