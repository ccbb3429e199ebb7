"""Messages of type errors: type_errors/NAME.relay and the whole text, NAME.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.vm.diagnostics.source import TypeCheckError

from ...golden_texts import Golden

CASES = sorted((Path(__file__).parent / "type_errors").glob("*.relay"))


@pytest.mark.parametrize("file", CASES, ids=[f.stem for f in CASES])
def test_type_error(file: Path, golden: Golden) -> None:
    mod = parse(file.read_text(), file.name)
    with pytest.raises(TypeCheckError) as caught:
        infer_type(to_a_normal_form(mod))
    golden.check(file.with_suffix(".txt"), f"{caught.value}\n")


def test_there_are_cases() -> None:
    assert len(CASES) >= 12
