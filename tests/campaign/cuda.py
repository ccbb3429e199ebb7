"""Programs on the emulated GPU: random typed ones, beside the other devices, against numpy and each other."""

from __future__ import annotations

import contextlib

from relayvm.vm.diagnostics.source import VMError

from ..emulator import emulator
from ..emulator.platform import plugged_in
from .programs import Case, Programs
from .random_programs import kernels_once


class GpuFailed(Exception):
    """A failure of the emulated GPU, with its own text: the machine reports an error number only, as a real GPU does."""


class Cuda(Programs):
    """Random programs; the first way of each runs on the emulated GPU."""

    name, unit, slice_trials, hang_seconds = "cuda", "programs", 8, 120.0
    slice_environment = {kernels_once.INTERPRETS: "1"}  # noqa: RUF012
    devices = (("cuda",), ("cuda", "sim", "cpu"))
    fused_share = 0.15

    def __init__(self) -> None:
        super().__init__()
        self._plugged = contextlib.ExitStack()

    def prepare(self) -> None:
        """Plug the emulated GPU in, until the process ends."""
        self._plugged.enter_context(plugged_in(proven=False))

    def check(self, case: Case) -> str | None:
        """As for the other devices; a failure of the GPU has the emulated GPU's text."""
        try:
            return super().check(case)
        except VMError as error:
            text = emulator.text()
            raise GpuFailed(f"{text}: {error}") if text else error from error

    def write(self, case: Case) -> str:
        """As for the other devices, with the emulated GPU plugged in."""
        lines = super().write(case).splitlines()
        opened = ["from tests.emulator.platform import plugged_in", "", "with plugged_in():"]
        return "\n".join([*opened, *(f"    {line}" if line else "" for line in lines)])


PART = Cuda()
