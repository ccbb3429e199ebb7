"""Kernels from CUDA C of users: a text that runs for each element of a result, or once in a block of threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from string import Template
from typing import Any

from ....shape_funcs.symbolic.dim import product
from ...core.op import get
from .assembly import Assembly, Parameter, blocks, literal, reads, size, writes
from .cuda_program import CudaSource, Data, Fault, OpaqueCall, Site
from .device_code.casts import NUMBER

_THREADS = 256
_LOOP = Template("""
  int64 all_threads_ = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < elements_; at += all_threads_) {
    $text
  }
""")
_BLOCK = Template("""
  const int64 thread = threadIdx.x, threads = $threads;
  $text
""")


def per_element(text: str) -> Callable[[OpaqueCall], CudaSource]:
    """``Kernel.cuda`` of CUDA C that is run once for each element ``at`` of the first result.

    Names of the text:

    * the inputs by their names (those of a tuple are ``name0``, ``name1``, ...), and the results, ``out`` or ``out0``, ``out1``,
      ...: pointers to their elements in row-major order; ``x_size1`` is the size of axis 1 of ``x``;
    * the attributes, which are constants; ``fail(fault, status, site)``, which stops the program with a status;
    * ``number(x)`` and ``to_float16(f)``, which convert the types float16 and bfloat16 to float and from it; a bool is a
      ``truth``, which converts to and from bool;
    * where the shape function has an upper bound, ``sizes``: a pointer to the int64 sizes that the text writes.  A result then
      has the elements of its bound.
    """

    def cuda(call: OpaqueCall) -> CudaSource:
        parameters, constants = _declared(call)
        count = product(call.results[0].shape)
        body = constants + _LOOP.substitute(threads=_THREADS, text=text.strip()).strip("\n")
        assembly = _assembly("each_element", _THREADS, (*parameters, size("elements_", count)), body)
        assembly.launch("each_element", blocks(count, _THREADS))
        return assembly.source()

    return cuda


def one_block(text: str, threads: int = _THREADS) -> Callable[[OpaqueCall], CudaSource]:
    """``Kernel.cuda`` of CUDA C that one block of ``threads`` threads runs, a multiple of 32 up to 1024.

    The text has the names of a text for one element, without ``at``; ``thread`` is the number of a thread.
    """

    def cuda(call: OpaqueCall) -> CudaSource:
        parameters, constants = _declared(call)
        body = constants + _BLOCK.substitute(threads=threads, text=text.strip()).strip("\n")
        assembly = _assembly("one_block", threads, parameters, body)
        assembly.launch("one_block", 1)
        return assembly.source()

    return cuda


def _assembly(name: str, threads: int, parameters: tuple[Parameter, ...], body: str) -> Assembly:
    """An assembly with one kernel, and with the conversions of dtypes, which the kernel may call."""
    assembly = Assembly()
    assembly.text(NUMBER)
    assembly.kernel(name, threads, parameters, body)
    return assembly


def _declared(call: OpaqueCall) -> tuple[tuple[Parameter, ...], str]:
    """The parameters of a kernel by a user's names, and the lines that declare constants."""
    parameters: list[Parameter] = []
    constants = [_constant(f.name, getattr(call.attrs, f.name)) for f in dataclasses.fields(call.attrs)]
    for name, tensor in zip(_names(call), call.inputs, strict=True):
        if tensor.position is None:
            constants.append(f"const {tensor.dtype} {name}[1] = {{{literal(tensor.dtype, tensor.value)}}};")
        else:
            parameters.append(reads(name, tensor))
        parameters += [size(f"{name}_size{k}", d) for k, d in enumerate(tensor.shape)]
    several = len(call.results) > 1
    for k, tensor in enumerate(call.results):
        name = f"out{k}" if several else "out"
        parameters += [writes(name, tensor), *(size(f"{name}_size{a}", d) for a, d in enumerate(tensor.shape))]
    if call.counts is not None:
        parameters.append(Parameter("int64*", "sizes", Data(call.counts)))
    parameters += [Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site())]
    return tuple(parameters), "".join(f"  {line}\n" for line in constants)


def _names(call: OpaqueCall) -> list[str]:
    """A name for each input."""
    inputs = get(call.name).inputs
    if not any(name.endswith("*") for name in inputs):
        return list(inputs)
    # at most one tuple can be distinguished from its neighbours
    extra = len(call.inputs) - len(inputs) + 1
    return [n for name in inputs for n in ([f"{name[:-1]}{k}" for k in range(extra)] if name.endswith("*") else [name])]


def _constant(name: str, value: Any) -> str:
    kind = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    if not isinstance(value, (bool, int, float)):
        raise ValueError(f"attribute {name}={value!r} is no number: give cuda as a function")
    return f"const {kind} {name} = {literal(kind, value)};"
