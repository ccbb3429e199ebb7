"""``relayvm serve``: serve models over the Open Inference Protocol until a signal ends the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..compiler.commands.terminal.options import config_option, device_option, json_option
from ..compiler.commands.terminal.progress import compile_progress
from ..compiler.commands.terminal.streams import answer
from .binding import LOOPBACK, Binding
from .protocol.limits import Limits

if TYPE_CHECKING:
    from .repository import Repository

Command = TypeVar("Command", bound=Callable[..., Any])


def limit_options(command: Command) -> Command:
    """An option for each limit of a server."""
    for f in reversed(fields(Limits)):
        name, least = f.name.replace("_", "-"), f.metadata["least"]
        command = click.option(
            f"--{name}", f.name, type=click.IntRange(min=least), default=f.default, show_default=True, help=f.metadata["help"]
        )(command)
    return command


@click.command("serve")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@device_option
@config_option
@click.option("--params", multiple=True, metavar="[NAME=]FILE", help="Weights of a model, a .npz or .safetensors file.")
@click.option(
    "--batch",
    multiple=True,
    metavar="[NAME=]DIM",
    help="A dim of a model's rows: its requests run together, without padding. Checked by running random requests.",
)
@click.option("--host", default=LOOPBACK, show_default=True, help="The address to bind; the default is the loopback.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="The port of REST; 0: any free.")
@click.option(
    "--grpc-port",
    type=click.IntRange(-1, 65535),
    default=8001,
    show_default=True,
    help="The port of gRPC; 0: any free, -1: none.",
)
@click.option("--certificate", type=click.Path(path_type=Path), metavar="PEM", help="The certificate chain for TLS.")
@click.option("--key", type=click.Path(path_type=Path), metavar="PEM", help="The certificate's key.")
@click.option(
    "--processes",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Processes that share the addresses, each with the models; 0: one for each core.",
)
@limit_options
@json_option
def serve_command(
    models: tuple[str, ...],
    device: str | None,
    config: dict[str, str],
    params: tuple[str, ...],
    batch: tuple[str, ...],
    host: str,
    port: int,
    grpc_port: int,
    certificate: Path | None,
    key: Path | None,
    processes: int,
    as_json: bool,
    **limits: int,
) -> None:
    """Serve models by the Open Inference Protocol, REST and gRPC.

    MODEL is PATH, NAME=PATH or NAME:VERSION=PATH: a program (.relay), a model (.onnx) or an executable (.rvm).  SIGTERM ends the
    server after the accepted requests; a replaced file is loaded anew.
    """
    from . import load, serve_repository

    limit = Limits(**limits)

    def loaded(limits: Limits) -> Repository:
        with compile_progress():
            return load(models, limits=limits, device=device, config=config, params=params, batch=batch)

    def announce(addresses: dict[str, str]) -> None:
        answer(addresses, "\n".join(f"{transport}  {address}" for transport, address in addresses.items()), as_json)

    grpc = None if grpc_port < 0 else grpc_port
    binding = Binding(host=host, port=port, grpc_port=grpc, certificate=certificate, key=key)
    serve_repository(loaded, limit, processes, binding, announce)
