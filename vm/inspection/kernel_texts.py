"""The kernels of a program as texts: the source that is compiled, the machine code of kernels for GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...ops.codegen import kernel_source
from ...ops.codegen.cuda import cuda_source, has_kernel
from ...ops.codegen.cuda.device_code import disassembler, nvrtc
from ...ops.codegen.cuda.machine_code import MachineCode, machine_code
from ...ops.core.group import Group
from ...ops.core.implementation import GPU
from ..bytecode.executable import ExecutableData
from ..device_table import DEVICE_TABLE, machine_of
from ..diagnostics.source import ConfigError, InputError
from ..runtime.kernels.kernel_addresses import in_python

#: The architecture of machine code where there is no GPU.
ARCHITECTURE = "sm_90"
_HELP = "`--stage kernels` shows the source of the kernels"


def sources(exe: ExecutableData) -> str:
    """The text of each kernel: Python for the host, CUDA C for a GPU."""
    return "\n".join(f"# {group.name}\n{_source(group, device)}" for group, device in _groups(exe))


def _source(group: Group, device: int) -> str:
    if DEVICE_TABLE[device].machine == GPU and has_kernel(group):
        return cuda_source(group).text or "# library calls only\n"
    return "# a kernel in Python\n" if in_python(group) else kernel_source(group).text


def _groups(exe: ExecutableData) -> Iterator[tuple[Group, int]]:
    """The kernels of a program, each once, with their devices."""
    yield from {(p.group.key(), p.device): (p.group, p.device) for p in exe.packed}.values()


def machine_codes(exe: ExecutableData) -> str:
    """Figures and instructions of each kernel for a GPU.

    Raises InputError for a program for another device, ConfigError without NVRTC or a disassembler.
    """
    if machine_of(exe.target) != GPU:
        message = f"a program for {exe.target} has no machine code of a GPU"
        raise InputError(message, help=f"compile it for {GPU}: --device {GPU}")
    groups = [group for group, device in _groups(exe) if DEVICE_TABLE[device].machine == GPU and has_kernel(group)]
    try:
        return "\n".join(_listing(group) for group in groups)
    except (nvrtc.NoNvrtc, disassembler.NoDisassembler) as error:
        raise ConfigError(f"there is no machine code to show: {error}", help=_HELP) from None


def _listing(group: Group) -> str:
    text = cuda_source(group).text
    architecture = _architecture(text)
    if not text:
        return f"# {group.name}: library calls only\n"
    image = nvrtc.cubin(text, architecture, group.name)
    listing = disassembler.listing(image)
    figures = [_figures(code) for code in machine_code(listing, disassembler.resource_usage(image))]
    return "\n".join([f"# {group.name}, {architecture}", *figures, listing])


def _figures(code: MachineCode) -> str:
    memory = f"{code.registers} registers, {code.stack_bytes} bytes of stack, {code.shared_bytes} bytes of shared memory"
    counts = f"{len(code.instructions)} instructions, {code.spills} spills, {code.barriers} barriers"
    return f"# {code.kernel}: {memory}; {counts}; loads: {_by_bits(code.loads)}; stores: {_by_bits(code.stores)}"


def _by_bits(counts: Counter[int]) -> str:
    return ", ".join(f"{n} of {bits} bits" for bits, n in sorted(counts.items())) or "none"


def _architecture(text: str) -> str:
    """The architecture of the GPU for CUDA C, or ``ARCHITECTURE`` where there is none."""
    from ..devices.cuda.driver_api.device import device
    from ..devices.cuda.driver_api.driver import NoCuda

    try:
        return device(0).architecture_of(text)
    except NoCuda:
        return ARCHITECTURE
