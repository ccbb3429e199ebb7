"""emit: the bytecode of small programs, as text, and invariants of the bytecode of any program.

Each file of ``emit/`` is a program, ``// -----``, and its bytecode and tables.  The first line has the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from relayvm.compiler.compile import compile
from relayvm.ops.analysis.uses import reads
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import FuncType, TupleType, Type
from relayvm.shape_funcs.symbolic.program import DATA
from relayvm.vm.api.executable import Executable
from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable import VMFunction
from relayvm.vm.device_table import DEVICES
from relayvm.vm.diagnostics.source import TypeCheckError
from relayvm.vm.options import CHECK_VARIABLE

from ..golden_texts import Golden, read_case
from ..programs import HEADER

CASES = sorted(Path(__file__).with_name("emit").glob("*.relay"))
HOST, SIM = DEVICES.index("cpu"), DEVICES.index("sim")


@pytest.fixture(autouse=True, scope="module")
def checked_passes() -> Iterator[None]:
    """The output of every pass is checked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CHECK_VARIABLE, "1")
        yield


def executable(program: str, target: str, **config: object) -> Executable:
    """The compiled program; without optimisations that change the tested instructions, unless requested."""
    return compile(HEADER + program, target, **{"opt_level": 2, "place": "off", **config})


def disassembly(exe: Executable) -> str:
    """The full disassembly of the executable."""
    out = []
    for f in exe.functions:
        params = ", ".join(f"%{name}: {ty}" for name, ty in f.params)
        out.append(f"@{f.name}({params}) -> {f.result}, {f.n_registers} registers")
        out += [f"  {pc:>3}  {instruction}" for pc, instruction in isa.disassemble(f.code)]
    out += [f"packed[{i}] {p.name}: {p.n_inputs} in, {p.n_outputs} out, device[{p.device}]" for i, p in enumerate(exe.packed)]
    out += [f"const[{i}] {c.dtype} {c.tolist()}" for i, c in enumerate(exe.constants)]
    out += [f"shape_func[{i}] {name}" for i, name in enumerate(exe.shape_func_names)]
    out += [f"reason[{i}] {r}" for i, r in enumerate(exe.reasons)]
    return "\n".join(out) + "\n"


def compiled_case(path: Path) -> Executable:
    """The executable of a case; unless memory is its subject, each value has a storage of its own."""
    case = read_case(path)
    return executable(case.program, **{"plan": "off", **case.options})


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_bytecode(path: Path, golden: Golden) -> None:
    golden.check_case(path, disassembly(compiled_case(path)))


def test_spans_lead_back_to_the_source() -> None:
    program = "def @main(%x: Tensor[(?), float32]) {\n  let %y = exp(%x);\n  reshape(%y, newshape=[1, -1])\n}\n"
    exe = executable(program, "cpu", fuse="off")
    (f,), (source,) = exe.functions, exe.sources
    shown = {pc: source.text[start:end] for pc, _, start, end in f.spans}
    starts = dict(isa.disassemble(f.code))
    assert all(pc in starts for pc in shown)
    assert [type(starts[pc]).__name__ for pc, text in shown.items() if text == "exp(%x)"] == ["ShapeOf"]
    assert any(text.startswith("reshape") for text in shown.values())


def test_a_storage_is_large_enough_and_nothing_is_allocated_twice() -> None:
    exe = executable('def @main(%x: Tensor[(5, 7), float64]) { (exp(%x), cast(%x, dtype="bool")) }', "cpu")
    sizes = [i.nbytes for _, i in isa.disassemble(exe.functions[0].code) if isinstance(i, isa.AllocStorage)]
    assert sizes == [5 * 7 * 8, 5 * 7]


# ---- properties of every program -----------------------------------------------------------------------------------


class Walk:
    """A walk over the bytecode of a function along all paths, with facts about each register: the device of a tensor,
    ``tuple``, ``storage``.  Jumps go forward only.  Raises AssertionError at a read of an empty register, at a kernel whose
    argument is on the wrong device, at a host read of a value on another device."""

    def __init__(self, exe: Executable, function: VMFunction, target: int) -> None:
        self.exe, self.target = exe, target
        self.code = dict(isa.disassemble(function.code))
        self.states: dict[int, dict[int, object]] = {0: {i: self.place(ty) for i, (_, ty) in enumerate(function.params)}}
        self.copies: list[str] = []
        self.returns = 0
        for pc, instruction in self.code.items():
            if pc in self.states:
                self.step(pc, instruction, dict(self.states[pc]))

    def place(self, ty: Type) -> object:
        """The device of a parameter or result of this type."""
        return "closure" if isinstance(ty, FuncType) else "tuple" if isinstance(ty, TupleType) else self.target

    def flow(self, pc: int, state: dict[int, object]) -> None:
        known = self.states.get(pc)
        self.states[pc] = state if known is None else {r: p for r, p in state.items() if known.get(r) == p}

    def called(self, func: int, args: list[object]) -> object:
        """The device of a call's result; its arguments must be on the devices of the parameters."""
        f = self.exe.functions[func]
        assert args == [self.place(ty) for _, ty in f.params], f.name
        return self.place(f.result)

    def step(self, pc: int, instruction: isa.Instruction, state: dict[int, object]) -> None:
        regs = state
        ends = False
        for name, kind in instruction.operands.items():
            value = getattr(instruction, name)
            if kind.table == "register" and kind.access in ("read", "take", "kill"):
                for r in value if kind.many else [value]:
                    assert r in regs, f"{pc}: {instruction} uses the empty register {r}"
        match instruction:
            case isa.KillRegister(dead=dead):
                for r in dead:
                    del regs[r]
            case isa.Move(dst=dst, src=src):
                regs[dst] = regs[src]
            case isa.AllocStorage(dst=dst) | isa.AllocStorageReg(dst=dst):
                if isinstance(instruction, isa.AllocStorageReg):
                    assert regs[instruction.shape] == HOST
                regs[dst] = ("storage", instruction.device)
            case isa.TakeStorage(dst=dst, device=device):
                regs[dst] = ("storage", device)
            case isa.AllocTensor(dst=dst, storage=storage) | isa.AllocTensorReg(dst=dst, storage=storage):
                if isinstance(instruction, isa.AllocTensorReg):
                    assert regs[instruction.shape] == HOST
                kind_, device = regs[storage]
                assert kind_ == "storage"
                regs[dst] = device
            case isa.InvokePacked(args=args, packed=packed):
                kernel = self.exe.packed[packed]
                assert kernel.device == self.target and len(args) == kernel.n_inputs + kernel.n_outputs
                touched = [*reads(kernel.group), *[True] * kernel.n_outputs]
                positions = [regs[r] for r in args]
                assert all(p == self.target for p, t in zip(positions, touched, strict=True) if t), f"{pc}: {instruction}"
                assert set(positions) <= {HOST, self.target}
            case isa.InvokeShapeFunc(func=func, args=args, dsts=dsts):
                program = self.exe.shape_funcs[func]
                program.verify(len(args))
                for i, how, _ in program.loads:
                    assert how != DATA or regs[args[i]] == HOST, f"{pc}: reads data that is not on the host"
                assert len(dsts) == len(program.outputs)
                regs.update(dict.fromkeys(dsts, HOST))
            case isa.DeviceCopy(dst=dst, src=src, src_device=a, dst_device=b, reason=reason):
                assert regs[src] == a != b
                regs[dst] = b
                if b == HOST:
                    self.copies.append(self.exe.reasons[reason].text)
            case isa.CopyBegin(dst=dst, src=src, src_device=a, reason=reason):
                assert regs[src] == a == self.target != HOST
                regs[dst] = "pending"
                self.copies.append(self.exe.reasons[reason].text)
            case isa.CopyWait(dst=dst, src=src):
                assert regs.pop(src) == "pending"
                regs[dst] = HOST
            case isa.ShapeOf(dst=dst):
                regs[dst] = HOST
            case isa.ReshapeTensor(dst=dst, src=src, shape=shape):
                assert regs[shape] == HOST
                regs[dst] = regs[src]
            case isa.SliceTensor(dst=dst, src=src, shape=shape, offset=offset):
                assert regs[shape] == regs[offset] == HOST
                regs[dst] = regs[src]
            case isa.TrimTensor(dst=dst, src=src, count=count):
                assert regs[count] == HOST
                regs[dst] = regs[src]
            case isa.LoadConst(dst=dst, device=device):
                regs[dst] = device
            case isa.AllocADT(dst=dst, values=values):
                assert all(regs[r] in (self.target, "tuple") for r in values)
                regs[dst] = "tuple"
            case isa.GetField(dst=dst):
                regs[dst] = self.target
            case isa.InvokeTaking(dst=dst, args=args, func=func, dead=dead):
                regs[dst] = self.called(func, [regs[r] for r in args])
                for r in {*dead} - {dst}:
                    del regs[r]
            case isa.Invoke(dst=dst, args=args, func=func):
                regs[dst] = self.called(func, [regs[r] for r in args])
            case isa.AllocClosure(dst=dst, captured=args, func=func):
                wanted = [self.place(ty) for _, ty in self.exe.functions[func].params]
                assert [regs[r] for r in args] == wanted[: len(args)]
                regs[dst] = "closure"
            case isa.InvokeClosure(dst=dst, closure=closure):
                assert regs[closure] == "closure"
                regs[dst] = self.target
            case isa.InvokeTail(args=args, func=func):
                self.called(func, [regs[r] for r in args])
                ends = True
            case isa.InvokeClosureTail(closure=closure):
                assert regs[closure] == "closure"
                ends = True
            case isa.Ret(src=src):
                assert regs[src] in (self.target, "tuple")
                ends = True
            case isa.If(test=test, on_true=on_true, on_false=on_false):
                assert regs[test] == HOST
                self.flow(pc + on_true, dict(regs))
                self.flow(pc + on_false, dict(regs))
                return
            case isa.Goto(offset=offset):
                self.flow(pc + offset, regs)
                return
            case _:
                raise AssertionError(f"no rule for {instruction}")
        if ends:
            self.returns += 1
        else:
            self.flow(pc + instruction.length, regs)


ANY, VEC = "Tensor[(?, ?), float32]", "Tensor[(2), int64]"


class Programs:
    """A generator of programs: matrices, int vectors and flags, operators of every kind, branches, calls."""

    def __init__(self, draw) -> None:
        self.draw, self.count = draw, 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, values: list[str]) -> str:
        return self.draw(st.sampled_from(values))

    def block(self, mats: list[str], vecs: list[str], depth: int) -> str:
        """Bindings and a matrix."""
        mats, vecs, lines = list(mats), list(vecs), []
        for _ in range(self.draw(st.integers(0, 5))):
            kind, name = self.draw(st.integers(0, 14 if depth else 12)), self.name()
            m, n, v, w = self.pick(mats), self.pick(mats), self.pick(vecs), self.pick(vecs)
            value = [
                f"exp({m})", f"add({m}, {n})", f"dyn.reshape({m}, {v})", f"dyn.tile({m}, {v})",
                f"dyn.strided_slice({m}, {v}, {w}, {v})", f"reshape({m}, newshape=[1, -1])", f"@f({m})",
                f'cast(argwhere(greater({m}, {n})), dtype="float32")', f"@both(({m}, {n})).1",
                f"{{ let %g = fn (%q: {ANY}) -> {ANY} {{ dyn.tile(add(%q, {m}), {v}) }}; @twice(%g, {n}) }}",
                f"add({v}, {w})", f'shape_of({m}, dtype="int64")', f'cast(shape_of({m}, dtype="int32"), dtype="int64")',
            ]  # fmt: skip
            if kind < 13:
                lines.append(f"let {name} = {value[kind]};")
                (vecs if kind >= 10 else mats).append(name)
            else:
                then, other = self.block(mats, vecs, depth - 1), self.block(mats, vecs, depth - 1)
                lines.append(f"let {name} = if (sum({m}) > 1f) {{ {then} }} else {{ {other} }};")
                mats.append(name)
        return " ".join([*lines, self.pick(mats)])


@st.composite
def programs(draw) -> str:
    body = Programs(draw).block(["%a", "%b", "%k"], ["%s", "%t"], 2)
    shared = draw(st.booleans())
    params = f"%a: Tensor[(?n, ?m), float32], %b: {'Tensor[(?n, ?m), float32]' if shared else ANY}, %k: Tensor[(2, 3), float32]"
    return (
        f'def @f(%x: {ANY}) -> {ANY} {{ dyn.tile(%x, shape_of(%x, dtype="int64")) }}\n'
        f"def @twice(%g: fn ({ANY}) -> {ANY}, %x: {ANY}) -> {ANY} {{ %g(%g(%x)) }}\n"
        f"def @both(%p: ({ANY}, {ANY})) {{ (%p.1, sqrt(%p.0)) }}\n"
        f"def @main({params}, %s: {VEC}, %t: {VEC}) -> {ANY} {{ {body} }}\n"
    )


def compiled(program: str, target: str, **config: object) -> Executable:
    """The executable of a generated program; a program whose known sizes do not fit is generated again."""
    try:
        return executable(program, target, **config)
    except TypeCheckError:
        reject()


FLAGGED = re.compile(r"([\w.]+): input '(\w+)' is data-dependent")
OTHERS = ("if: the condition is read by the host", "argwhere: the kernel reports the size of its result")


@settings(max_examples=40)
@given(programs(), st.sampled_from(["on", "off"]), st.sampled_from([0, 2]))
def test_values_are_where_they_are_read_and_only_flagged_data_comes_to_the_host(program: str, fuse: str, level: int) -> None:
    exe = compiled(program, "sim", fuse=fuse, opt_level=level)
    for function in exe.functions:
        walk = Walk(exe, function, SIM)
        assert walk.returns
        for reason in walk.copies:
            flagged = FLAGGED.fullmatch(reason)
            if flagged is None:
                assert reason in OTHERS
            else:
                op = get(flagged[1])
                assert op.data_dependent[op.inputs.index(flagged[2])]


@pytest.mark.lengthy
@settings(max_examples=20)
@given(programs())
def test_op_mode_copies_at_least_what_input_mode_does(program: str) -> None:
    copies = []
    for mode in ("input", "op"):
        exe = compiled(program, "sim", data_dependence=mode)
        copies.append(sum(len(Walk(exe, f, SIM).copies) for f in exe.functions))
    assert copies[0] <= copies[1]


@settings(max_examples=20)
@given(programs())
def test_nothing_is_copied_where_target_and_host_are_one(program: str) -> None:
    exe = compiled(program, "cpu")
    assert not exe.reasons
    for function in exe.functions:
        assert not Walk(exe, function, HOST).copies
