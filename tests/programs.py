"""Programs of tests in Relay's text format."""

from __future__ import annotations

from typing import Any

import relayvm as relay

#: First line of every program.
HEADER = '#[version = "0.0.5"]\n'


def with_header(text: str) -> str:
    """The text of a program, with its first line."""
    return text if text.startswith("#") else HEADER + text


def machine(text: str, target: str = "cpu", **config: Any) -> relay.VirtualMachine:
    """A machine with the compiled program; the first line may be missing."""
    return relay.VirtualMachine(relay.compile(with_header(text), target=target, **config))


def machine_on(target: str, text: str, **config: Any) -> relay.VirtualMachine:
    """A machine with the program for ``target``, which the text calls ``sim``."""
    return machine(text.replace('"sim"', f'"{target}"'), target, **config)
