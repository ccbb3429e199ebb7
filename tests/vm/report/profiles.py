"""A profile built by hand, for the tests of exports."""

from __future__ import annotations

from relayvm.ops.native.compiled.kernel_store import Use
from relayvm.vm.bytecode.executable import FloatProduct
from relayvm.vm.diagnostics.source import SourceText
from relayvm.vm.report.profile_data import CopyRow, Moment, Row, Site
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.report.series import Key, Series
from relayvm.vm.runtime.tracing.trace_events import ALLOC, DTOH, HTOD, KERNEL, SHAPE_FUNC

WHY = "dyn.reshape: input 'newshape' is data-dependent"

TYPE, MEMCPY = "float32[5, 2]", "[memcpy DtoH]"


def example() -> Profile:
    """A profile built by hand, with a value in every field."""
    return Profile(
        device="sim",
        entry="main",
        config={"fuse": "on"},
        run_ns=(3000, 1000),
        counters=({"syncs": 1, "peak_bytes": 64}, {"syncs": 1, "peak_bytes": 64}),
        activities=(
            Row(KERNEL, "exp", 2, 3000, 1000, 2000, 0),
            Row(DTOH, "[memcpy DtoH]", 2, 1000, 400, 600, 16),
            Row(HTOD, "[memcpy HtoD]"),
        ),
        host=(Row(SHAPE_FUNC, "shape_func:exp", 2, 90, 40, 50, 0),),
        copies=(CopyRow(DTOH, WHY, 2, 16),),
        series=(Series(Key(KERNEL, "exp", "a.relay:2"), (1, 1), (1000, 2000), (0, 0)),),
        sites=(
            Site(
                KERNEL,
                "exp",
                "sim",
                "exp",
                "main",
                14,
                "InvokePacked",
                0,
                2,
                "",
                2,
                3000,
                1000,
                2000,
                120,
                80,
                "float32[5, 2]",
                1,
                "",
                "float32 -> float32",
            ),
            Site(
                DTOH,
                "[memcpy DtoH]",
                "sim",
                "dyn.reshape",
                "main",
                24,
                "DeviceCopy",
                0,
                2,
                WHY,
                2,
                1000,
                400,
                600,
                1000,
                16,
                "",
                1,
            ),
            Site(ALLOC, "[allocate]", "sim", "", "main", 3, "AllocStorageReg", 0, 2, "", 2, 0, 0, 0, 0, 80, "", 1),
            Site(HTOD, "[memcpy HtoD]", "sim", "", "", -1, "", -1, 0, "an argument", 2, 0, 0, 0, 0, 0, "", 1),
        ),
        timeline=(
            Moment(2, 5, 5, 5, 5, 40, 64, ""),
            Moment(0, 100, 1100, 20, 80, 40, 128, "float32[5, 2]"),
            Moment(1, 1200, 1600, 1200, 1600, 8, 64, ""),
        ),
        timeline_ns=2000,
        timeline_dropped=7,
        prepared=(Use("disk_hits", "exp", 12345),),
        metrics=({"joules": 0.5}, {"joules": 0.25}),
        arguments=("x: float32[5, 2]",),
        warmup=2,
        environment={"python": "3"},
        sources=(SourceText("a.relay", "def @main() {\n  <b>exp</b>\n}\n"),),
        float_products=(FloatProduct("nn.dense", "a.relay:2:3", "a scale is not finite"),),
    )
