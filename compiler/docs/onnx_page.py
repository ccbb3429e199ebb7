"""The page of ONNX's operators, ``docs/onnx.md``, from the table of the converters."""

from __future__ import annotations

from ..onnx_frontend import operators as operators  # declares the converters
from ..onnx_frontend.operator_table import declared_operators

_HEAD = """\
# ONNX

Generated from the converters by `python -m relayvm.compiler.docs.pages`; do not edit. {count} operators.

```python
mod, params = relay.frontend.from_onnx("model.onnx")
vm = relay.VirtualMachine(relay.compile(mod, params=params))
```

A model is a path, a file's contents, or a `ModelProto` (`pip install 'relayvm[onnx]'`). A `dim_param` becomes a size `?name`, so
equal names are checked to be equal sizes; other sizes that are not declared are `?`. An input without a rank needs
`shape={{name: ...}}`. Shape computations stay computations of the program: placement and folding work on them. Data in files
beside the model is mapped into memory, not read; a file outside of the model's folder is refused. Messages, profiles and
`explain` name the nodes.

An operator that is not in the table is converted if the model has a function of its name, or if the standard gives a body for it
of operators in the table. All others are refused at once: the error lists each operator, its domain and version, the first node
and the number of nodes. An operator is converted from the listed versions on, each up to the next; an older version is refused.

Where a value decides the rank of a result (the axes of `Squeeze`, `Unsqueeze` and of reductions), the model must determine it: a
stored tensor, or a computation from stored tensors and known sizes.

A sequence is a tuple: its length, and the positions of insertions, must be known at import. Whether an optional has a value
must be known, too. A result that is a sequence is a tuple of tensors, or a list, a value of the library's type `List`, where
`SplitToSequence` makes parts whose number is known at run time only.

A dtype that the model declares for a value must be the dtype of the value. A declared shape that contradicts the computed shape
is a `relay.frontend.ModelWarning` with both shapes, and is ignored, as in onnxruntime. Declared types are not read where
`shape=` or `dtype=` replace those of the inputs. Data shorter than the window of a convolution or a pool

Inputs and outputs keep their names, whatever text they are: `exe.inputs`, `exe.outputs`, `vm.run(x=..., outputs=["boxes"])`, the
server and files of results use them. In a program's text the outputs are the attribute `output_names` of `@main`. Characters that
cannot be printed are escaped as in Python, in calls by name, too: both forms of a name are accepted. An output that is listed
twice has a number behind its second name.

A stored tensor that is an input, too, is the default of that input: a call may give another value. Such a value is known at run
time only, so nothing that depends on it is folded or packed. Exporters that list all weights of a network among the inputs do not
mean that. Therefore the listed tensors can be replaced only if the model has at least version 4 of the format, they have together
at most 64 elements, and the import need not know their values; else they are constants. `overridable=True` makes all of them
replaceable, `overridable=["k"]` those of these names, `overridable=False` none. With `freeze_params=False` all stored tensors are
parameters, and their values are returned.

Sparse tensors are stored with their zeros. An operator version that the package onnx does not know is refused.

`relay.frontend.OnnxBackend` is a backend of `onnx.backend.base`: ONNX's own suite runs on it (`python -m tests.onnx`). None of
its results is wrong, on `cpu` and on `sim`. [expectations.py](../tests/onnx/suite/expectations.py) lists each case that does
not run, with the reason; `core` are the cases of the standard's operators on tensors of common dtypes, without training, random
numbers, images, sequences and optionals. `python -m tests.onnx --sizes` compares the cases of `core` at other sizes with ONNX's
reference; [exceptions.py](../tests/onnx/suite/exceptions.py) has the reason of each difference.

| cases of onnx 1.23 | number | run |
|---|---|---|
{suite}
`relay.compile("model.onnx")` and the commands store the executable beside the kernels and load it as long as nothing that
the compiler reads has changed: [cache.md](cache.md#executables-of-files). `relay.frontend.onnx_metadata("model.onnx")` reads
the texts that an exporter stored in the model, such as the characters of a recognition model.

## Two applications

```sh
python examples/ocr.py PICTURE                  # pip install 'relayvm[ocr]'
python examples/voice_activity.py SOUND.wav     # pip install --no-deps silero-vad
```

[ocr.py](../examples/ocr.py) prints the lines of text in a picture with their boxes, and writes the picture with the boxes
drawn. Three models of the package `rapidocr-onnxruntime` run on the virtual machine: detection for any number and size of
pictures, direction, recognition of lines of any width. The package's own code prepares their inputs and reads their outputs,
with `Session` of the example in place of the package's class. Without PICTURE the example draws a page and counts the characters
that it reads.

[voice_activity.py](../examples/voice_activity.py) prints where speech begins and ends in a sound. A model of the package
`silero-vad` takes the next 32 ms and the state of a recurrent network. The state stays on the device: a call copies one
probability to the host. The extra `voice` installs the whole package, with torch; the example needs the model's file only.

`benchmarks/onnx_models.py` measures the models side by side with onnxruntime: the first process, later processes, the import, the
time of a run.

## Operators

| operator | domain | from version | |
|---|---|---|---|
"""


#: The cases of each kind of ONNX's own suite, and those that run: ``tests.onnx.suite.test_suite`` holds them true.
SUITE = {
    "core": (1588, 1585), "node": (1884, 1634), "simple": (23, 15), "pytorch-converted": (82, 82),
    "pytorch-operator": (35, 35), "light": (9, 9),
}  # fmt: skip


def onnx_markdown() -> str:
    """The page."""
    rows = []
    for domain, name, versions in declared_operators():
        since = ", ".join(str(v.since) for v in versions)
        notes = " ".join(dict.fromkeys(" ".join(v.doc.split()) for v in versions if v.doc))
        rows.append(f"| `{name}` | {domain or 'ai.onnx'} | {since} | {notes} |\n")
    suite = "".join(f"| `{kind}` | {number} | {run} |\n" for kind, (number, run) in SUITE.items())
    return _HEAD.format(count=len(rows), suite=suite) + "".join(rows)
