"""torch, cupy and onnxruntime, if installed and able to use the GPU."""

from __future__ import annotations

import contextlib
import functools
import importlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .contest import Contestant
from .figures import NotRun, brief

#: Most seconds for work of unbounded time, such as compiling a function with torch.
PATIENCE_S = 30
#: Whether the GPU is emulated.  Set by ``emulated``.
emulated = False
_refused: list[str] = []


@functools.cache
def torch() -> Any:
    """torch with a GPU.  Raises NotRun."""
    found = _imported("torch")
    if not found.cuda.is_available():
        raise NotRun("torch finds no GPU")
    found.backends.cuda.matmul.allow_tf32 = False
    found.backends.cudnn.allow_tf32 = False
    return found


@functools.cache
def cupy() -> Any:
    """cupy with a GPU.  Raises NotRun."""
    if emulated:
        raise NotRun("the GPU is emulated")
    found = _imported("cupy")
    try:
        found.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise NotRun(f"cupy finds no GPU ({brief(error)})") from error
    return found


@functools.cache
def onnxruntime() -> Any:
    """onnxruntime with its CUDA provider.  Raises NotRun."""
    found = _imported("onnxruntime")
    if "CUDAExecutionProvider" not in found.get_available_providers():
        raise NotRun("this onnxruntime has no CUDA provider")
    return found


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotRun("not installed" if getattr(error, "name", "") == name else brief(error)) from error


def tensor(array: np.ndarray) -> Any:
    """The array as a tensor of torch on the GPU.  torch takes no bfloat16 from numpy: its bits go as integers."""
    t = torch()
    if array.dtype.name == "bfloat16":
        return t.from_numpy(array.view(np.int16)).cuda().view(t.bfloat16)
    return t.from_numpy(array).cuda()


def torch_contestant(run: Callable[..., Any], *arguments: Any) -> Contestant:
    """Calls of a function on tensors of torch, without its bookkeeping for gradients."""
    t = torch()

    def call() -> Any:
        with t.inference_mode():
            return run(*arguments)

    return Contestant(call, t.cuda.synchronize)


def replayed(run: Callable[..., Any], *arguments: Any) -> tuple[Contestant, Any]:
    """Replays of a function's launches as a CUDA graph of torch, for these sizes alone, and the tensor that a replay writes."""
    t = torch()
    graph = t.cuda.CUDAGraph()
    with t.inference_mode():
        side = t.cuda.Stream()  # torch's guide: run the warm-up before a capture on another stream
        side.wait_stream(t.cuda.current_stream())
        with t.cuda.stream(side):
            run(*arguments)
        t.cuda.current_stream().wait_stream(side)
        with t.cuda.graph(graph):
            result = run(*arguments)
    graph.replay()
    # the result has to live as long as the graph that writes it
    return Contestant(lambda kept=result: graph.replay(), t.cuda.synchronize), result


def compiled(run: Callable[..., Any], *arguments: Any) -> Contestant:
    """The same through ``torch.compile``, which has PATIENCE_S seconds for it.  Raises NotRun, from its first failure on."""
    t = torch()
    if _refused:
        raise NotRun(_refused[0])
    try:
        with limited(PATIENCE_S):
            fast = t.compile(run)
            found = torch_contestant(fast, *arguments)
            found.run()
            found.finish()
    except Exception as error:
        _refused.append(f"torch.compile: {brief(error)}")
        raise NotRun(_refused[0]) from error
    return found


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in a block that takes longer."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
