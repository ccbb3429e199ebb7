"""The copies of all examples are held at their minimum, with the command that anyone's CI would use for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.compiler.commands.cli import main

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

#: Per example: the options for its inputs, and the minimum of copies to the host, their bytes, and waits.
LEAST = {
    # shapes are computed on the host throughout
    "exporter_shapes": ("--shapes n=1 --shapes n=5", 0, 0, 0),
    # the length of a text, which is read off a shape
    "transformer_encoder": ("--shapes b=0;s=4 --shapes b=2;s=0 --shapes b=2;s=7", 0, 0, 0),
    "sentence_embedding": ("--shapes words=1 --shapes words=7", 0, 0, 0),
    # the number of boxes that are kept, of which the host makes a shape
    "detection_tail": ("--shapes n=0 --shapes n=1 --shapes n=300", 1, 4, 1),
    # the number of proposals that are kept, and the number of detections
    "mask_rcnn_tail": ("--shapes n=0;h=4;w=5 --shapes n=1;h=4;w=5 --shapes n=100;h=8;w=6", 2, 8, 2),
    # the number of rows that argwhere found
    "digits": (
        "--shapes n=0 --shapes n=1 --shapes n=50 --input digit=3 --input top_left=int64[2]=0,1 --input bottom_right=int64[2]=8,7",
        1,
        8,
        1,
    ),
    # the three best tokens and their scores, per sequence that is continued
    "beam_search": ("--shapes n=3 --shapes n=6", 78, 936, 78),
    # the condition of the loop, whether all texts have ended: one per token, and one at the limit
    "text_generation": (
        "--input prompts=int32[2,5]=7 --input lengths=int64[2]=5,3 --input limit=4 --input stop=-1 --input temperature=1",
        5,
        5,
        5,
    ),
    # the recursion over sizes is on the host, the tensors of the leaves are on the device
    "treelstm": ("--shapes n=1 --shapes n=7", 0, 0, 0),
}


def compare(name: str, side: str) -> int:
    """Run ``compare``, with the limits for one side, or for both."""
    inputs, copies, nbytes, waits = LEAST[name]
    sides = ["--a", "data_dependence=op,place=off", "--b", "data_dependence=input,place=on", "--device", "sim", "--repeat", "1"]
    above = [f"{{0}}.dtoh_copies > {copies}", f"{{0}}.dtoh_bytes > {nbytes}", f"{{0}}.syncs > {waits}"]
    checks = [part for one in side for text in above for part in ("--fail-if", text.format(one))]
    return main(["compare", str(EXAMPLES / f"{name}.relay"), *sides, *inputs.split(), *checks])


def test_every_example_is_held() -> None:
    assert set(LEAST) == {p.stem for p in EXAMPLES.glob("*.relay")}, "say above how many copies the new example needs"


def test_the_command_succeeds_at_the_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("detection_tail", "b") == 0, capsys.readouterr().err


#: A network whose kernels take longer to run than to optimize, which another test has done.
LARGE = "sentence_embedding"


@pytest.mark.split(3)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.optimized] if n == LARGE else []) for n in LEAST])
def test_copies_are_at_their_minimum_and_more_would_be_noticed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(name, "ab") == 1
    holding = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fail-if: ") and " holds " in line]
    assert any(line.startswith("fail-if: a.dtoh_") for line in holding)
    assert not [line for line in holding if not line.startswith("fail-if: a.")]
