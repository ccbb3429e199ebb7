"""``relayvm dump``: a program at a stage of compilation."""

from __future__ import annotations

from pathlib import Path

import click

from ...vm.device_table import DEVICES
from ...vm.inspection import kernel_texts
from ..load_program import open_program, read_module
from ..lowering.pipeline import STAGES, stages
from ..settings.config import Config
from ..settings.targets import check_target
from ..text.printer import astext
from ..tuning.remember import remembered
from .terminal.options import config_option, device_option, file_argument, json_option, params_option
from .terminal.progress import compile_progress
from .terminal.streams import answer

_STAGE_HELP = "The stage to show; sass: machine code of a GPU (needs --device cuda and relayvm[sass])."


@click.command("dump")
@file_argument
@click.option("--stage", type=click.Choice(["parsed", *STAGES, "bytecode", "kernels", "sass"]), required=True, help=_STAGE_HELP)
@params_option
@device_option
@config_option
@json_option
def dump_command(file: Path, stage: str, params: Path | None, device: str | None, config: dict[str, str], as_json: bool) -> None:
    """Show FILE at a stage of compilation."""
    with compile_progress():
        text = _dumped(file, stage, device, config, params)
    answer({"stage": stage, "text": text}, text.rstrip("\n"), as_json)


def _dumped(file: Path, stage: str, device: str | None, config: dict[str, str], params: Path | None) -> str:
    if stage == "bytecode":
        return open_program(file, device, config, params).disassembly
    if stage == "kernels":
        return kernel_texts.sources(open_program(file, device, config, params))
    if stage == "sass":
        return kernel_texts.machine_codes(open_program(file, device, config, params))
    module = read_module(file, params)
    settings, target = Config.of(**config), _target(device)
    if stage != "parsed":
        module = stages(module, settings, target, remembered(module, settings, target))[stage]
    return astext(module, show_meta_data=False, show_types=stage == "typed")


def _target(device: str | None) -> str:
    check_target(device or DEVICES[0])
    return device or DEVICES[0]
