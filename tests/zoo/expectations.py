"""The families that do not pass an exporter, with the reasons: ``test_zoo`` holds the list exact."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .exporters import End


@dataclass(frozen=True)
class Reason:
    """The reason for an end of families, ``kind`` with a text of the pattern ``found``, of an exporter; "" for every exporter."""

    why: str
    kind: str
    found: str
    families: tuple[str, ...]
    exporter: str = ""

    def is_of(self, family: str, exporter: str, end: End) -> bool:
        """Whether it is the reason for this end."""
        return (
            end.kind == self.kind
            and self.exporter in ("", exporter)
            and family in self.families
            and re.fullmatch(self.found, end.reason, re.DOTALL) is not None
        )


NOT_EQUAL: tuple[Reason, ...] = (
    Reason("torch.export fixes the length of texts, without a word", "error", r"\(1, 1\): input/type: .*", ("mamba",), "torch"),
    Reason(
        "torch cannot solve a condition of the pool",
        "not exported",
        r"NotImplementedError: The inequality.*",
        ("alexnet",),
        "torch",
    ),
    Reason(
        "torch's older exporter has no differences of neighbours, which masks of newer decoders take",
        "not exported",
        r"UnsupportedOperatorError: Exporting the operator 'aten::diff' .*",
        (
            *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "phi", "gpt_neox", "gpt2", "falcon", "mixtral"),
            "whisper",
        ),
        "script",
    ),
    Reason(
        "torch's older exporter fixes the length of texts", "error", r"\(1, 1\): run/index-out-of-range: .*", ("mamba",), "script"
    ),
    Reason(
        "torch's older exporter wants a known size before the pool",
        "not exported",
        r"SymbolicValueError: .*adaptive_avg_pool2d.*",
        ("vgg11", "alexnet"),
        "script",
    ),
    Reason(
        "torch's older exporter has no form of its own fused attention",
        "not exported",
        r"UnsupportedOperatorError: Exporting the operator 'aten::_native_multi_head_attention' .*",
        ("vit",),
        "script",
    ),
    Reason(
        "torch.export ends with a guard on the number of boxes",
        "not exported",
        r"GuardOnDataDependentSymNode: .*",
        (
            *("fasterrcnn_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_fpn", "maskrcnn_resnet50_fpn"),
            *("keypointrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn", "ssd300_vgg16"),
            "ssdlite320_mobilenet_v3_large",
        ),
        "torch",
    ),
    Reason("torch.export fixes the number of frames", "error", r".*run/shape-check: the size of axis 2 .*", ("r3d_18",), "torch"),
)


def expected(family: str, exporter: str) -> Reason | None:
    """The reason why a family does not pass an exporter; None if it does."""
    return next((r for r in NOT_EQUAL if family in r.families and r.exporter in ("", exporter)), None)
