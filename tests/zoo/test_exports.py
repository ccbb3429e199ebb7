"""One module by several exporters, with the same named sizes: the same primitives, and the same results."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnx")

import onnx
import torch

import relayvm as relay

from . import texts
from .exporters import Flat

#: Primitives of a program of ``torch.export`` besides those of ONNX: checks of the sizes that the exporter allows.
ALLOWED = {"minimum", "dyn_full"}
#: The steps of ONNX's ``Gather``, which counts negative indices from the end; an embedding of torch takes none.
FROM_THE_END = "less_add_where_"
SIZES = ((1, 1), (2, 7), (3, 16))


def _programs(name: str) -> dict[str, Any]:
    family = texts.FAMILIES.by_name[name]
    assert family.wider is not None, "layers of few channels have other kernels"
    module, example = Flat(family.wider(8).eval()), family.draw(family.sizes[0])
    dims = torch.export.Dim("batch", max=64), torch.export.Dim("length", max=64)
    sizes = (tuple({axis: dims[axis] for axis in axes} for axes in family.open_axes),)
    names = [f"x{k}" for k in range(len(example))]
    axes = {x: {axis: dims[axis].__name__ for axis in axes} for x, axes in zip(names, family.open_axes, strict=True)}
    made = {"torch": torch.export.export(module, example, dynamic_shapes=sizes, strict=False)}
    files = {"dynamo": io.BytesIO(), "script": io.BytesIO()}
    torch.onnx.export(module, example, dynamo=True, dynamic_shapes=sizes, verbose=False).save(files["dynamo"])
    if name != "llama":  # the exporter to TorchScript has no form of aten::diff
        torch.onnx.export(module, example, files["script"], dynamo=False, input_names=names, dynamic_axes=axes)
    return made | {way: onnx.ModelProto.FromString(f.getvalue()) for way, f in files.items() if f.tell()}


def _names(exe: relay.Executable, *, of_onnx: bool) -> set[str]:
    names = {p.name.rstrip("0123456789") for p in exe.packed}
    if not of_onnx:
        return names
    plain = (n.replace(FROM_THE_END, "") for n in names)
    return {n.removeprefix("fused_") if n.count("_") == 1 else n for n in plain}


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_exporters_give_the_same_primitives(name: str) -> None:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        programs = _programs(name)
        arguments = [[a.numpy() for a in texts.FAMILIES.by_name[name].draw(sizes)] for sizes in SIZES]
    compiled = {way: relay.compile(program) for way, program in programs.items()}
    by_onnx = {way: sorted(p.name.rstrip("0123456789") for p in exe.packed) for way, exe in compiled.items() if way != "torch"}
    assert len({tuple(names) for names in by_onnx.values()}) == 1, by_onnx
    torchs = _names(compiled["torch"], of_onnx=False)
    assert {n[:40] for n in torchs - ALLOWED} == {n[:40] for n in _names(compiled["dynamo"], of_onnx=True)}  # a long name is cut
    for args in arguments:
        results = [relay.VirtualMachine(exe).run(*args) for exe in compiled.values()]
        for result in results[1:]:
            np.testing.assert_array_equal(result.numpy(), results[0].numpy())
