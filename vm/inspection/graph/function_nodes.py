"""The nodes of one function: a forward data flow over its bytecode, in which operands are found by role."""

from __future__ import annotations

from collections.abc import Iterable

from ....ops.core.group import Group
from ....ops.core.tensor_types import DTYPES, TensorType, Type
from ....shape_funcs.symbolic.dim import ANY, const, dim
from ...bytecode import isa
from ...bytecode.executable import ExecutableData, VMFunction
from ...bytecode.instruction import Control
from ...bytecode.operand_kinds import Role
from ...bytecode.register_flow import jump_targets
from ...bytecode.size_expressions import nbytes, parameter_sizes, portable, shape_text
from ...device_table import CPU, DEVICES
from ...machine.runtime_errors import spans_of
from .nodes import ARGUMENT, BRANCH, CALL, COPY, KERNEL, RESULT, Node
from .values import Read, Registers, Value, Values, joined, reads


class FunctionNodes:
    """``nodes``: of the function, numbered from ``first`` on.  ``reads``: numbers of nodes with the values that they read."""

    def __init__(self, exe: ExecutableData, function: VMFunction, first: int) -> None:
        self.exe, self.function, self.first = exe, function, first
        self.nodes: list[Node] = []
        self.reads: list[tuple[int, list[Read]]] = []
        self._notes = {note.pc: note for note in function.notes}
        self._span = spans_of(exe, function)
        self._returned: list[Read] = []
        self._walk()
        result = Node(RESULT, "result", function.name, -1, exe.target, detail={"type": str(function.result)})
        self._add(result, self._returned)

    def _walk(self) -> None:
        jumped: dict[int, Registers] = {}
        state: Registers | None = self._arguments()
        for pc, instruction in isa.disassemble(self.function.code):
            here = joined(jumped.get(pc), state)
            if here is None:  # no path leads here
                continue
            self._step(pc, instruction, here)
            for target in jump_targets(pc, instruction):
                found = joined(jumped.get(target), here)
                assert found is not None, "a path leads to it"
                jumped[target] = found
            state = None if instruction.leaves() else here

    def _arguments(self) -> Registers:
        target, names = DEVICES.index(self.exe.target), parameter_sizes(self.function.params)
        state: Registers = {}
        for number, (name, ty) in enumerate(self.function.params):
            device = DEVICES[self.function.device_of(number, target)]
            text, size = _type_text(portable(ty, names) if isinstance(ty, TensorType) else ty)
            node = self._add(Node(ARGUMENT, f"%{name}", self.function.name, -1, device, detail={"type": text}), ())
            state[number] = (Value(name, text, size, [node]),)
        return state

    def _add(self, node: Node, found: Iterable[Read]) -> int:
        """The number of a new node that reads these values."""
        number, listed = self.first + len(self.nodes), list(found)
        node.constants = tuple(dict.fromkeys(read.value.constant for read in listed if read.maker < 0 and not read.sizes_only))
        self.nodes.append(node)
        self.reads.append((number, listed))
        return number

    # ---- instructions ----------------------------------------------------------------------------------------------------

    def _step(self, pc: int, instruction: isa.Instruction, state: Registers) -> None:
        """Add the node of an instruction, and update the registers."""
        roles, control = instruction.roles, instruction.control
        read = _of(instruction.registers("read", "take"), state)
        written: Values = ()
        if Role.KERNEL in roles:
            self._kernel(pc, instruction, state)
        elif control in (Control.CALL, Control.TAIL_CALL):
            written = self._call(pc, instruction, read)
        elif control is Control.RETURN:
            self._returned += reads(read)
        elif control is Control.JUMP:
            self._branch(pc, read)
        elif Role.REASON in roles:
            written = self._copy(pc, instruction, state)
        else:
            written = self._defined(pc, instruction, state, read)
        for register in instruction.registers("kill", "take"):
            state.pop(register, None)
        for register in instruction.registers("write"):
            state[register] = written

    def _kernel(self, pc: int, instruction: isa.Instruction, state: Registers) -> None:
        packed = self.exe.packed[instruction.get(Role.KERNEL)]
        args = instruction.get(Role.ARGS)
        outputs = _of(args[packed.n_inputs :], state)
        detail = {"operators": ", ".join(dict.fromkeys(n.op for n in packed.group.nodes))}
        if packed.group.implementation:
            detail["implementation"] = packed.group.implementation + (f": {packed.because}" if packed.because else "")
        self._complete(outputs, packed.group)
        detail["results"] = ", ".join(v.type for v in outputs[: len(packed.group.results)])
        node = Node(KERNEL, packed.name, self.function.name, pc, DEVICES[packed.device], self._span(pc), detail)
        node.formats, node.group = packed.formats, packed.group
        sizes = [size for value in outputs for size in value.sizes]
        number = self._add(node, [*reads(_of(args[: packed.n_inputs], state)), *reads(sizes, sizes_only=True)])
        for value in outputs:
            value.written_by(number)

    def _complete(self, outputs: Values, group: Group) -> None:
        """Add the sizes that the group's types state to the types of results whose sizes are known at run time."""
        values = group.values()
        for value, ref in zip(outputs, group.results, strict=False):
            if value.sizes:
                # the names of a group's dims are its own
                shape = tuple(d if const(d) is not None else ANY for d in values[ref].shape)
                value.type, value.nbytes = _type_text(TensorType(shape, values[ref].dtype))

    def _call(self, pc: int, instruction: isa.Instruction, read: Values) -> Values:
        number = instruction.get(Role.CALLEE)
        callee = "" if number is None else self.exe.functions[number].name
        ty = "" if number is None else str(self.exe.functions[number].result)
        node = Node(CALL, f"@{callee}" if callee else "a function value", self.function.name, pc, self.exe.target, self._span(pc))
        node.callee, node.detail = callee, {"result": ty} if ty else {}
        made = (Value("", ty, None, [self._add(node, reads(read))]),)
        if instruction.control is Control.TAIL_CALL:
            self._returned += reads(made)
        return made

    def _branch(self, pc: int, read: Values) -> None:
        """A branch on elements; a choice among kernels by sizes is no node."""
        found = list(reads(read))
        if any(not r.sizes_only and r.maker >= 0 for r in found):
            self._add(Node(BRANCH, "if", self.function.name, pc, DEVICES[CPU], self._span(pc)), found)

    def _copy(self, pc: int, instruction: isa.Instruction, state: Registers) -> Values:
        reason = self.exe.reasons[instruction.get(Role.REASON)]
        device = DEVICES[instruction.get(Role.DEVICE) or CPU]
        source = DEVICES[instruction.get(Role.SOURCE_DEVICE)]
        values = _of((instruction.get(Role.COPIED),), state)
        text, size = ("", None) if reason.type is None else _type_text(reason.type)
        detail = {"because": reason.text, "from": source, "to": device, "type": text}
        node = Node(COPY, f"copy to {device}", self.function.name, pc, device, self._span(pc), detail)
        number = self._add(node, reads(values))
        return (Value(values[0].name if values else "", text, size, [number]),)

    def _defined(self, pc: int, instruction: isa.Instruction, state: Registers, read: Values) -> Values:
        """The value of an instruction without a node: a tensor, a view, a constant, a record, a vector of sizes."""
        roles, note = instruction.roles, self._notes.get(pc)
        name = note.name if note is not None else ""
        if Role.CONST in roles:
            data = self.exe.constants[instruction.get(Role.CONST)]
            text, size = _type_text(TensorType.of(data.shape, data.dtype.name))
            return (Value(f"const[{instruction.get(Role.CONST)}]", text, size, constant=text),)
        if instruction.defines("storage"):
            return ()
        if Role.STORAGE in roles:
            return (self._tensor(name, instruction, _of((instruction.get(Role.SHAPE),), state)),)
        aliased = instruction.get(Role.ALIASED, Role.WHOLE)
        if aliased is not None:
            wholes, others = _of((aliased,), state), [r for r in instruction.registers("read") if r != aliased]
            if not others:
                return wholes
            # a shape, a count or an offset decides the part
            first = wholes[0] if wholes else Value()
            return (Value(name or first.name, first.type, None, wholes=wholes, sizes=_of(others, state)),)
        if Role.SIZED in roles or Role.SHAPE_FUNC in roles:
            return (Value(sizes=read),)
        return (Value(name, parts=read),)

    def _tensor(self, name: str, instruction: isa.Instruction, shape: Values) -> Value:
        """A tensor in a storage; its sizes are immediates, or known at run time."""
        dtype = DTYPES[instruction.get(Role.DTYPE)]
        dims = instruction.get(Role.DIMS)
        if dims is None:
            return Value(name, dtype, None, sizes=shape)
        text, size = _type_text(TensorType(tuple(map(dim, dims)), dtype))
        return Value(name, text, size)


def _of(registers: Iterable[int | None], state: Registers) -> Values:
    return tuple(value for r in registers if r is not None for value in state.get(r, ()))


def _type_text(ty: Type) -> tuple[str, int | None]:
    """The type as text, and the bytes of its elements; None: known at run time."""
    return (shape_text(ty), const(nbytes(ty))) if isinstance(ty, TensorType) else (str(ty), None)
