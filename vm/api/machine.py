"""The virtual machine of the public API: the machine's core with kept arguments and results, and reports on its runs."""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.core.implementation import HOST
from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import TensorType, TupleType, Type
from ..bytecode.executable import VMFunction
from ..diagnostics import codes
from ..diagnostics.argument_errors import a_mapping, a_sequence, a_text, described
from ..diagnostics.python_source import here
from ..diagnostics.source import ArgumentError, InputError, VMError
from ..machine.machine_core import MachineCore, check_device
from ..values import dlpack
from ..values.signature import ArgumentChecker, as_array, positional
from ..values.tensor import Tensor
from .executable import Executable

if TYPE_CHECKING:
    from ..report.benchmark import BenchmarkResult
    from ..report.profile_report import Profile
    from ..report.profiling import Collector

_OUTPUTS_HELP = "numpy.empty(shape, dtype) for each result"


class VirtualMachine(MachineCore):
    """Interpreter of an executable.  One thread at a time may use a machine; any number of machines can share an executable.

    ``device``: the executable's target by name, or None.  The name may contain the number of the GPU, from 0: ``cuda:1``.
    Relay's list of devices may name ``cpu`` beside it.  ``memory_cfg``: None or ``"pooled"``, Relay's name of the only allocator.
    ``memory_limit_bytes``: most bytes of storage allocated at a time (None: no limit).  ``stack_limit_bytes``: size of the
    stack, which limits the depth of calls.  ``link_bytes_per_s``: speed of the link to the ``sim`` device (0: that of memory);
    ``link_latency_ns``: the time that each copy over the link takes besides.

    The executable's configuration has ``graphs``, ``bulk`` and ``debug_sync`` (see the compiler's configuration keys).

    Raises ConfigError for a device other than the target and for a GPU that does not exist, ExecutableFormatError for an
    executable that does not verify.
    """

    exe: Executable

    # ---- kept arguments and results ----------------------------------------------------------------------------------

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep the arguments of a function for ``invoke``, ``invoke_stateful`` and calls without arguments.

        ``kwargs``: arguments by name; names of no parameter are ignored.  ``args``: the other arguments, in order.  Arrays are
        copied; results of this machine and arrays on its GPU are not.  Raises ConfigError for an unknown function, InputError
        for a missing argument, for too many, and for an argument that does not fit its parameter.
        """
        function = self[func_name].function
        names = [name for name, _ in function.params]
        given = {name: kwargs[name] for name in names if name in kwargs}
        unnamed = [name for name in names if name not in given]
        if len(args) > len(unnamed):
            positional(function, [*given, *args], {})  # raises
        values = positional(function, (), given | dict(zip(unnamed, args, strict=False)))
        checker = ArgumentChecker(function)
        rows = zip(function.params, values, strict=True)
        self._inputs[function.name] = {name: self._kept_argument(checker, name, ty, value) for (name, ty), value in rows}

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep one argument: ``set_one_input("main", "x", array)``, ``set_one_input("main", 0, array)`` or ``x=array``.

        Raises ConfigError and InputError as ``set_input``, ArgumentError for any other form.
        """
        function = self[func_name].function
        if len(args) + 2 * len(kwargs) != 2:
            message = f"set_one_input takes a parameter and its value, not {len(args)} arguments and {len(kwargs)} by name"
            raise ArgumentError(message, here(), help='set_one_input("main", "x", array)')
        tag, value = args or next(iter(kwargs.items()))
        name, ty = function.params[_parameter_number(function, tag)]
        kept = self._kept_argument(ArgumentChecker(function), name, ty, value)
        self._inputs[function.name] = {**self._inputs.get(function.name, {}), name: kept}

    def _kept_argument(self, checker: ArgumentChecker, name: str, ty: Type, value: Any) -> Any:
        """The argument, checked, with arrays copied."""
        if isinstance(ty, TupleType) and type(value) in (tuple, list) and len(value) == len(ty.fields):
            fields = enumerate(zip(ty.fields, value, strict=True))
            return tuple(self._kept_argument(checker, f"{name}.{i}", t, v) for i, (t, v) in fields)
        if not isinstance(ty, TensorType):
            return value  # the call refuses a value that does not fit
        session = self._runtime.session
        if type(value) is not Tensor:
            if session is not None and session.is_here(value):
                return value
            value = np.array(as_array(name, value, ty.dtype))
        checker.check(name, ty, value.shape, value.dtype.name)
        return value

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function on these arguments, or on those of ``set_input``, and keep arguments and result.

        ``run`` and ``vm["name"](...)`` keep nothing and copy no array.  Raises as ``set_input``, and VMError for failures.
        """
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        return self._run_kept(func_name)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call a function as ``invoke`` and keep its result for ``get_outputs``."""
        self.invoke(func_name, *args, **kwargs)

    def get_outputs(self) -> list[Any]:
        """The result of the last call on kept arguments: the fields of a tuple, or the one tensor.

        Raises VMError if there was no such call, or another run since.
        """
        if self._kept is None:
            help = 'invoke_stateful("main") runs on the arguments of set_input and keeps the result'
            raise VMError("this VirtualMachine keeps no result", help=help)
        if self._kept[0] != self._runtime.view["instructions"]:
            help = "run, benchmark and profile keep no result; read get_outputs before them"
            raise VMError("this VirtualMachine has run again since the result that it keeps", help=help)
        return _flat(self._kept[1])

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The number of a parameter; -1 if the function has no parameter of this name.  Raises ConfigError, ArgumentError."""
        names = [name for name, _ in self[func_name].function.params]
        return names.index(input_name) if a_text(input_name, "get_input_index: the name") in names else -1

    def invoke_with_outputs(self, func_name: str, input_args: Any, output_args: Sequence[Any]) -> None:
        """Call a function and copy its results into ``output_args``: writable arrays of the results' shapes and dtypes.

        A kernel writes to memory of the machine, and each result is copied once: the memory plan lets a result be a view, an
        argument, or stored where an earlier value was, so that an array of the caller could not take its place.
        ``input_args``: arguments by name, or in order; if empty, those of ``set_input``.  An output is a numpy array, or a
        Tensor or another array on the host.  Raises InputError, before anything is written, for outputs that do not fit.
        """
        outputs = [_writable(i, value) for i, value in enumerate(a_sequence(output_args, "output_args", _OUTPUTS_HELP))]
        if isinstance(input_args, (list, tuple)):
            results = self._flat_result(func_name, *input_args)
        else:
            results = self._flat_result(func_name, **a_mapping(input_args, "input_args", "arguments by name, or in order"))
        if len(results) != len(outputs):
            message = f"@{func_name} needs {len(results)} outputs, {len(outputs)} were given"
            raise InputError(message, help=_OUTPUTS_HELP, code=codes.Input.ARGUMENTS)
        for i, (output, result) in enumerate(zip(outputs, results, strict=True)):
            wanted, found = (TensorType.of(each.shape, each.dtype.name) for each in (result, output))
            if wanted != found:
                message = f"@{func_name}: output {i} is {found}, the result is {wanted}"
                raise InputError(message, help=_OUTPUTS_HELP, code=codes.Input.TYPE)
        for output, result in zip(outputs, results, strict=True):
            np.copyto(output, result.numpy())

    def _flat_result(self, func_name: str, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The tensors of a call's result, in order."""
        todo, tensors = [self.invoke(func_name, *args, **kwargs)], []
        while todo:
            value = todo.pop()
            if isinstance(value, tuple):
                todo.extend(reversed(value))
            elif isinstance(value, Tensor):
                tensors.append(value)
            else:
                what = f"@{func_name}: the result contains {described(value)}, which no array can hold"
                raise InputError(what, help="invoke returns any result")
        return tensors

    # ---- reports -----------------------------------------------------------------------------------------------------

    def benchmark(
        self, device: str | None = None, *args: Any, func_name: str = "main", repeat: int = 5, number: int = 5,
        min_repeat_ms: float | None = None, limit_zero_time_iterations: int = 100, end_to_end: bool = False,
        cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1, **kwargs: Any,
    ) -> BenchmarkResult:  # fmt: skip
        """Time a function on these arguments, or on those of ``set_input``: ``repeat`` times the mean of ``number`` calls.

        ``device``: that of the machine, or None.  ``number`` grows until a repetition takes ``min_repeat_ms``, or has shown no
        time at all ``limit_zero_time_iterations`` times.  ``end_to_end``: copy arguments to the device and results to the host
        in each call.  After every ``repeats_to_cooldown`` repetitions the process sleeps ``cooldown_interval_ms``.

        Raises ConfigError for another device or an unknown function, InputError and VMError as ``invoke``.
        """
        from ..report.benchmark import BenchmarkPlan, benchmark  # reports, which a run does without

        timing = BenchmarkPlan.of(
            repeat, number, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown
        )  # fmt: skip
        check_device(self.exe, device, "benchmark: the device")
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        entry = self[func_name]
        values = positional(entry.function, (), self._inputs.get(func_name, {}))
        if not end_to_end:
            devices = [entry.function.device_of(i, self._device) for i in range(len(values))]
            values = tuple(self._on_device(v, device) for v, device in zip(values, devices, strict=True))
        return benchmark(self, lambda: _to_host(entry(*values)) if end_to_end else entry(*values), timing)

    def _on_device(self, value: Any, device: int) -> Any:
        """An argument whose arrays are results of this machine on the device of their parameter."""
        if isinstance(value, tuple):
            return tuple(self._on_device(v, device) for v in value)
        return self._from_array(value, device) if device and isinstance(value, np.ndarray) else value

    def profile(
        self, *args: Any, repeat: int = 10, warmup: int = 2, collectors: Sequence[Collector] = (), **named: Any
    ) -> Profile:
        """A profile of ``main`` on these arguments: ``warmup`` unmeasured runs, then ``repeat`` measured runs.

        ``collectors`` are user-defined measurements of the timed runs: ``start()`` is called before a run, ``stop()`` after it;
        ``stop`` returns a dict of numbers, which the profile has as ``metrics``.
        """
        from ..report.profiling import profile  # reports, which a run does without

        return profile(self, args, named, repeat=repeat, warmup=warmup, collectors=collectors)


def _parameter_number(function: VMFunction, tag: Any) -> int:
    """The number of the parameter with this name or number.  Raises InputError, ArgumentError."""
    names = [name for name, _ in function.params]
    listed = ", ".join(f"%{n}: {t}" for n, t in function.params) or "none"
    if isinstance(tag, str) or not hasattr(tag, "__index__") or isinstance(tag, bool):
        if a_text(tag, "set_one_input: the parameter", "its name or its number") in names:
            return names.index(tag)
        message = f"@{function.name} has no parameter {tag!r}{nearest(tag, names, '{!r}')}"
    elif 0 <= tag.__index__() < len(names):
        return int(tag.__index__())
    else:
        message = f"@{function.name} has no parameter {tag}: it has {len(names)}"
    raise InputError(message, help=f"its parameters: {listed}", code=codes.Input.ARGUMENTS)


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _to_host(result: Any) -> None:
    """Copy the tensors of a result to the host."""
    for value in _flat(result):
        if isinstance(value, tuple):
            _to_host(value)
        else:
            value.numpy()


def _writable(number: int, value: Any) -> np.ndarray:
    """The array that shares the memory of an output.  Raises InputError for an output that cannot be written."""
    if isinstance(value, Tensor) and value.device != "cpu":
        what = f"output {number} is on {value.device}"
        raise InputError(f"{what}: results are copied to outputs on the host only", help=_OUTPUTS_HELP)
    if isinstance(value, (Tensor, np.ndarray)):
        array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    else:
        try:
            array = dlpack.in_place(value)
        except dlpack.ElsewhereError as error:
            what = f"output {number} is on the DLPack device {error.device}"
            raise InputError(f"{what}: results are copied to outputs on the host only", help=_OUTPUTS_HELP) from None
        except Exception as error:  # a foreign object may run its code
            raise InputError(f"output {number} is no array: {type(value).__name__}", help=_OUTPUTS_HELP) from error
    if not array.flags.writeable:
        raise InputError(f"output {number} is read-only", help=_OUTPUTS_HELP)
    return array


# ---- pickling of results ---------------------------------------------------------------------------------------------


@functools.cache
def _keeper() -> VirtualMachine:
    """A machine without functions that owns unpickled tensors."""
    return VirtualMachine(Executable((), (), (), (), (), (), HOST))


def tensor_of(array: np.ndarray) -> Tensor:
    """A tensor on the host with the elements of an array, for results unpickled in any process.

    Raises VMError if out of memory.
    """
    return _keeper()._from_array(np.require(array, requirements=["C", "A"]), 0)


copyreg.pickle(Tensor, lambda tensor: (tensor_of, (tensor.numpy(),)))
