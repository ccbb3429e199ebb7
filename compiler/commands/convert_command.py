"""``relayvm convert``: a model as a program's text, and its weights as a file beside it."""

from __future__ import annotations

from pathlib import Path

import click

from ...vm.bytecode.atomic_file import write_whole
from ...vm.bytecode.safetensors import SUFFIX as WEIGHTS
from ...vm.bytecode.safetensors import write_safetensors
from ...vm.diagnostics.source import InputError, SourceText
from ..inputs.model_files import SUFFIX as MODEL
from ..inputs.model_files import is_model_file
from ..text.parser import parse
from ..text.printer import astext
from .terminal.options import json_option
from .terminal.progress import compile_progress
from .terminal.streams import answer

#: The suffix of a program's text.
TEXT = ".relay"


@click.command("convert", short_help="Write a model (.onnx) as a program's text and its weights.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "out", type=click.Path(path_type=Path), required=True, metavar="MODEL.relay", help="The text to write.")
@json_option
def convert_command(file: Path, out: Path, as_json: bool) -> None:
    """Write FILE, a model (.onnx), as a program's text, and its weights to a .safetensors file of the same name.

    `relayvm run MODEL.relay --params MODEL.safetensors` runs them.
    """
    from ..onnx_frontend.importing.from_onnx import from_onnx

    if not is_model_file(file):
        raise InputError(f"{file} is no model", help=f"give a file that ends in {MODEL}")
    if out.suffix != TEXT:
        raise click.BadParameter(f"{out} must end in {TEXT}", param_hint="'-o'")
    with compile_progress():
        module, weights = from_onnx(file, freeze_params=False)
        text = astext(module)
    # the text adapts names, so the weights take the names of the parameters that are read back
    params = parse(SourceText(str(out), text))["main"].params
    names = {before.name: after.name for before, after in zip(module["main"].params, params, strict=True)}
    stored = {names[name]: array for name, array in weights.items()}
    path = out.with_suffix(WEIGHTS)
    write_safetensors(path, stored)
    write_whole(out, text.encode("utf-8"))
    inputs = [f"%{p.name}: {p.annotation}" for p in params if p.name not in stored]
    data = {"file": str(out), "weights": str(path), "inputs": inputs, "parameters": len(stored), "bytes": path.stat().st_size}
    lines = [f"{out}: @main({', '.join(inputs)})", f"{path}: {len(stored)} weights, {data['bytes']} bytes"]
    answer(data, "\n".join(lines), as_json)
