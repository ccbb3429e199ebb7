"""A finding as the body of a test: the program's text, its inputs and numpy's results, literally."""

from __future__ import annotations

import numpy as np

from .program import Program
from .running import Way, bound, text_of


def body(program: Program, ways: tuple[Way, ...], other: dict[str, np.ndarray] | None) -> str:
    """Lines that fail while the finding is there: each way gives numpy's results, and all ways the same of ``other`` inputs."""
    names = [n for n in program.inputs() if not (n in program.constants and not program.values[n].array.ndim)]
    constants = list(bound(program))
    lines = [
        "import contextlib",
        "",
        "import numpy as np",
        "from numpy import inf, nan  # noqa: F401",
        "",
        "import relayvm as relay",
    ]
    lines += ["from relayvm.ops.core.tensor_types import numpy_dtype", ""]
    lines += ['text = r"""', *text_of(program).strip().splitlines(), '"""']
    lines += ["inputs = {", *(f"    {n!r}: {literal(program.values[n].array)}," for n in names), "}"]
    if other is not None:
        lines += ["other = {", *(f"    {n!r}: {literal(x)}," for n, x in other.items()), "}"]
    lines += ["wanted = [", *(f"    {literal(program.values[n].array)}," for n in program.body.results), "]"]
    lines += [f"constants = {{n: inputs.pop(n) for n in {constants}}}", "found = []"]
    lines += ["for target, config, donations in ["]
    lines += [f"    ({w.device!r}, {dict(w.config)}, {_donations(w)})," for w in ways]
    lines += ["]:", "    exe = relay.compile(text, target=target, params=constants, **config)"]
    lines += ["    vm = relay.VirtualMachine(exe)"]
    if other is not None:
        lines += ["    with contextlib.suppress(relay.RelayError):  # the other sizes may not fit each other"]
        lines += ["        found.append([np.array(x.numpy()) for x in vm.run(**other)])"]
        lines += ["    with contextlib.suppress(relay.RelayError):  # work that fails may be found by the next run"]
        lines += ["        [np.array(x.numpy()) for x in vm.run(**inputs)]"]
    lines += ["    for given in donations:"]
    lines += ["        results = vm.run(**{n: np.array(x) for n, x in inputs.items()}, **given)"]
    lines += ["        for x, y in zip(results, wanted, strict=True):"]
    lines += ["            assert x.shape == y.shape and x.numpy().dtype == y.dtype"]
    error = max(program.values[n].error for n in program.body.results)
    if error:
        lines += ['            a, b = x.numpy().astype("float64"), y.astype("float64")']
        lines += [f"            np.testing.assert_allclose(a, b, rtol={error!r}, atol={error!r})"]
    else:
        lines += ["            np.testing.assert_array_equal(x.numpy(), y)"]
    if other is not None:
        lines += ["for results in found[1:]:", "    for x, y in zip(results, found[0], strict=True):"]
        lines += ["        np.testing.assert_array_equal(x, y)"]
    return "\n".join(lines)


def _donations(way: Way) -> str:
    return repr([{}] * (way.runs - 1) + [{"donate": list(way.donated)} if way.donated else {}])


def literal(x: np.ndarray) -> str:
    """Python that makes the array."""
    values = x.reshape(-1).tolist()
    shape = "" if x.ndim == 1 else f".reshape({x.shape})"
    return f"np.array({values}, numpy_dtype({x.dtype.name!r})){shape}"
