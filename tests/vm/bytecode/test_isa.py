"""The instruction set: encoding, opcodes of the native loop checked against the table, texts."""

from __future__ import annotations

import ast
import inspect
import re
import types
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.core.effect import NO_EFFECT
from relayvm.ops.core.op import Op
from relayvm.ops.defs.machine import machine_ops
from relayvm.vm.bytecode import dispatch, isa
from relayvm.vm.bytecode.disassembly import instruction_markdown, isa_markdown
from relayvm.vm.bytecode.verify import verify
from relayvm.vm.runtime import control_handlers, loop

from ...golden_texts import Golden
from .executables import by_hand

ROOT = Path(__file__).resolve().parents[3]
CLASSES = sorted(isa.INSTRUCTIONS.values(), key=lambda c: c.opcode)
WORDS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def instructions(draw: st.DrawFn) -> isa.Instruction:
    """A strategy for arbitrary instructions with arbitrary numbers."""
    cls = draw(st.sampled_from(CLASSES))
    return cls(*(tuple(draw(st.lists(WORDS, max_size=4))) if k.many else draw(WORDS) for k in cls.operands.values()))


def test_opcodes_are_numbered_without_a_gap() -> None:
    assert [c.opcode for c in CLASSES] == list(range(len(CLASSES)))


def test_an_opcode_is_given_once() -> None:
    with pytest.raises(ValueError, match="opcode 0 is already Move"):

        class Again(isa.Instruction, opcode=0):
            pass


@given(st.lists(instructions(), max_size=5))
def test_what_is_assembled_disassembles_to_the_same(items: list[isa.Instruction]) -> None:
    words, starts = isa.assemble(items)
    assert words.dtype == np.int64
    assert isa.disassemble(words.tolist()) == list(zip(starts, items, strict=True))
    assert len(words) == sum(i.length for i in items)


@given(instructions())
def test_every_instruction_has_a_text(i: isa.Instruction) -> None:
    assert str(i).startswith(type(i).__name__)


@given(instructions(), st.data())
def test_an_instruction_that_is_cut_off_is_refused(i: isa.Instruction, data: st.DataObject) -> None:
    words = i.words()[: data.draw(st.integers(1, max(1, i.length - 1)))]
    if len(words) == i.length:
        assert isa.decode(words, 0) == i
    else:
        with pytest.raises(isa.EncodingError, match="runs off the end"):
            isa.decode(words, 0)


@pytest.mark.parametrize("opcode", [-1, len(CLASSES), 2**62])
def test_an_unknown_opcode_is_refused(opcode: int) -> None:
    with pytest.raises(isa.EncodingError, match=f"no instruction has opcode {opcode}"):
        isa.decode([opcode], 0)


def test_labels_become_distances() -> None:
    ahead, back = isa.Label(), isa.Label()
    words, _ = isa.assemble([back, isa.LoadConsti(0, 1), isa.If(0, ahead, back), isa.Goto(back), ahead, isa.Ret(0)])
    assert isa.disassemble(words)[1:3] == [(3, isa.If(0, 6, -3)), (7, isa.Goto(-7))]


# ---- the native loop -----------------------------------------------------------------------------------------------


def opcodes_in_loop() -> list[int]:
    """The opcodes of the branches of ``run_loop``."""
    (body,) = ast.parse(loop.TEXT).body
    (run,) = (n for n in ast.walk(body) if isinstance(n, ast.While))
    (branch,) = (n for n in run.body if isinstance(n, ast.If) and n.orelse)
    found = []
    while True:
        found += [int(word) for word in re.findall(r"op == (\d+)", ast.unparse(branch.test))]
        if not isinstance(branch.orelse[0], ast.If):
            return found
        branch = branch.orelse[0]


def test_the_loop_handles_every_instruction_and_nothing_else() -> None:
    assert sorted(opcodes_in_loop()) == sorted(isa.INSTRUCTIONS)


def test_every_instruction_has_a_handler_but_the_jump_to_one_target() -> None:
    assert set(loop.HANDLERS) == set(CLASSES) - {isa.Goto}


def test_a_handler_takes_operands_by_name() -> None:
    for handler in loop.HANDLERS.values():
        instructions = [cls for cls, other in loop.HANDLERS.items() if other is handler]
        operands = [(name, kind.many) for cls in instructions for name, kind in cls.operands.items()]
        names = {n for name, many in operands for n in (name, *[f"n_{name}"] * many)}
        assert set(inspect.signature(handler).parameters) <= names | {"state", "pc", "regs", "following"}


def test_an_instruction_has_one_handler() -> None:
    again = types.ModuleType("again")
    again.move = dispatch.handles(isa.Move)(lambda: 0)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Move has a handler already"):
        dispatch.handlers_in((control_handlers, again))


def test_operands_are_decoded_from_their_words() -> None:
    """The branch of an instruction with two lists, run on its words."""
    words = isa.InvokeTaking(7, 1, (5, 6), (3, 4, 5)).words()
    given: dict[str, int] = {}

    @dispatch.handles(isa.InvokeTaking)
    def handler(following: int, dst: int, func: int, args: int, n_args: int, dead: int, n_dead: int) -> int:
        given.update(locals())
        return 1

    others = {c: h for c, h in loop.HANDLERS.items() if c is not isa.InvokeTaking}
    text = dispatch.branches({isa.InvokeTaking: handler, **others}, before_long="")
    first = text[: text.index("elif")]
    exec(f"while True:\n{indent(first, '    ')}", {
        "op": words[0], "at": 0, "pc": 100, "regs": 1000, "load_i64": lambda at: words[at // 8], "handler": handler,
    })  # fmt: skip
    expected = {"following": 100 + len(words), "dst": 1056, "func": 1, "args": 32, "n_args": 2, "dead": 56, "n_dead": 3}
    assert {name: given[name] for name in expected} == expected


# ---- mentions in the product -----------------------------------------------------------------------------------------

#: Most product files that name an instruction or its machine operator: the two declarations, the handler, the rule or the pass.
MOST_FILES = 4
#: The instructions and operators that are named in more files, and in how many: with a rule as well as a pass, or typed and
#: placed like operators of the language, and evaluated by the debug executor.
MORE_FILES = {
    **dict.fromkeys(("InvokePacked", "InvokeShapeFunc", "KillRegister", "TrimTensor"), 5),
    **dict.fromkeys(("ASSERT_SHAPE",), 7),
    **dict.fromkeys(("AllocClosure",), 7),
    "STOP_FUSION": 5,
    "ASSERT_SAME_SIZE": 8,
    "ON_DEVICE": 8,
    "DeviceCopy": 10,
}
#: The instructions of machine operators with other names.
INSTRUCTION_OF = {"INVOKE_OP": "InvokePacked", "KILL": "KillRegister", "SHAPE_FUNC": "InvokeShapeFunc", "TRIM": "TrimTensor"}
#: The machine operators by the names of their variables.
OPERATORS = {name: op for name, op in vars(machine_ops).items() if isinstance(op, Op)}


def constant(cls: type[isa.Instruction]) -> str:
    """The name of an instruction as a constant: ``ALLOC_STORAGE_REG``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()


def names_of_instructions() -> dict[str, set[str]]:
    """The names of each instruction in the product, and of each machine operator that is no single instruction."""
    names = {cls.__name__: {cls.__name__, constant(cls)} for cls in CLASSES}
    of_constant = {constant(cls): cls.__name__ for cls in CLASSES} | INSTRUCTION_OF
    for operator in OPERATORS:
        names.setdefault(of_constant.get(operator, operator), set()).add(operator)
    return names


def files_that_name_instructions() -> dict[str, set[str]]:
    """The product files that name each instruction or its machine operator: in ``isa`` or ``machine_ops``, or in the runtime as a
    constant."""
    names = names_of_instructions()
    files: dict[str, set[str]] = {name: set() for name in names}
    layers = ("declarations", "shape_funcs", "ops", "vm", "compiler")
    for path in sorted(f for layer in layers for f in (ROOT / layer).rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        text, named = path.read_text(), set[str]()
        if not re.search(r"(isa|machine_ops)\b", where + text) and not where.startswith("vm/runtime/"):
            continue  # the walk over the tree takes a thousand times as long
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("isa", "machine_ops"):
                named.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith(("isa", "machine_ops")):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ClassDef) and where == "vm/bytecode/isa.py":
                named.add(node.name)
            elif isinstance(node, ast.Name) and where == "ops/defs/machine/machine_ops.py":
                named.add(node.id)
            elif isinstance(node, ast.Name) and where.startswith("vm/runtime/"):
                named |= {node.id} - set(OPERATORS.keys() & INSTRUCTION_OF)  # the runtime has constants of these names
        for name, aliases in names.items():
            if named & aliases:
                files[name].add(where)
    return files


def test_few_files_name_an_instruction() -> None:
    files = files_that_name_instructions()
    assert files["AllocStorage"] > {"vm/bytecode/isa.py", "ops/defs/machine/machine_ops.py"}
    assert {name: sorted(where) for name, where in files.items() if len(where) > MORE_FILES.get(name, MOST_FILES)} == {}
    assert {name: len(files[name]) for name in MORE_FILES} == MORE_FILES  # no more than it needs


def test_an_operator_and_its_instruction_have_the_same_roles() -> None:
    compared = set()
    for cls in CLASSES:
        operator = OPERATORS.get(constant(cls))
        if operator is not None and operator.effect is not NO_EFFECT:
            args = [
                name
                for name, kind in cls.operands.items()
                if kind.access in ("read", "take") or kind.table in ("const", "function")
            ]
            roles = {name: role for role, name in cls.roles.items()}
            assert operator.effect.roles == tuple(roles.get(name) for name in args), cls.__name__
            assert cls.defines(operator.effect.result.name.lower()), cls.__name__
            compared.add(cls)
    assert {isa.SliceTensor, isa.TakeStorage, isa.AllocTensorReg, isa.LoadConst, isa.CopyWait, isa.AllocClosure} <= compared


# ---- texts ---------------------------------------------------------------------------------------------------------


def test_the_executable_by_hand_has_every_instruction() -> None:
    used = {type(i) for f in by_hand().functions for _, i in isa.disassemble(f.code)}
    assert used == set(CLASSES)
    verify(by_hand())


def test_the_disassembly_is_as_recorded(golden: Golden) -> None:
    golden.check(Path(__file__).with_name("golden") / "disassembly.txt", by_hand().disassembly)


def test_the_page_is_fresh(golden: Golden) -> None:
    golden.check(ROOT / "docs" / "isa.md", isa_markdown())


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_instruction_is_on_the_page(cls: type[isa.Instruction]) -> None:
    text = instruction_markdown(cls)
    assert text in isa_markdown()
    assert all(f"| `{name}` |" in text for name in cls.operands)
    assert cls.__doc__ and not cls.__doc__.startswith(cls.__name__ + "(")
