"""The models of two published packages: equal to onnxruntime at many sizes, and the examples that use them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.inspection.transfers import DTOH

from ..devices import HOST
from ..example_programs import example_modules  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[2]
#: The largest difference from onnxruntime: of probabilities, and of the state of a recurrent network.
NEAR = 1e-4


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    absent = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"the package {package} is not installed: pip install 'relayvm[{extra}]'")


needs_ocr, needs_voice = needs("rapidocr_onnxruntime", "ocr"), needs("silero_vad", "voice")
needs_onnxruntime = needs("onnxruntime", "bench")
EXTENSIVE = pytest.mark.extensive
#: Networks that take seconds.
pytestmark = pytest.mark.optimized


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=ROOT, timeout=600)


def other_runtime(path: Path) -> Callable[..., list[np.ndarray]]:
    """The model in onnxruntime: a function from inputs by name to outputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda **inputs: session.run(None, inputs)


# ---- text in pictures ----------------------------------------------------------------------------------------------------


def images(name: str) -> Iterator[tuple[int, ...]]:
    """More than twenty shapes of inputs: several at once and none, of least and of odd sizes."""
    tiles = [
        (1, 1, 1),
        (1, 1, 20),
        (1, 20, 1),
        (1, 3, 5),
        (1, 5, 3),
        (1, 9, 9),
        (1, 23, 29),
        (2, 2, 3),
        (3, 1, 1),
        (4, 3, 2),
        (0, 2, 2),
        (2, 5, 1),
        (5, 2, 1),
        (2, 4, 4),
        (1, 2, 10),
        (1, 7, 4),
        (1, 4, 4),
        (1, 8, 3),
        (1, 6, 9),
        (1, 2, 1),
        (1, 1, 2),
    ]
    lines = [(n, w) for n in (1, 2, 3) for w in (8, 16, 31, 33, 101, 320)] + [(6, 321), (1, 640), (1, 1000), (4, 129)]
    match name:
        case "detection":
            yield from ((n, 3, 32 * h, 32 * w) for n, h, w in tiles)
        case "recognition":
            yield from ((n, 3, 48, w) for n, w in lines)
        case "direction":
            yield from ((n, 3, 48, 192) for n in (0, 1, 2, 3, 5, 7, 16))
            yield from ((n, 3, 48, w) for n in (1, 2, 3) for w in (17, 33, 64, 100, 640))  # fmt: skip


@needs_ocr
@needs_onnxruntime
@pytest.mark.extensive
@pytest.mark.parametrize("name", ["detection", "direction", "recognition"])
def test_a_model_gives_the_results_of_onnxruntime_at_every_size(name: str) -> None:
    from ocr import model_file

    path, rng = model_file(name), np.random.default_rng(0)
    machine, other = relay.VirtualMachine(relay.compile(path)), other_runtime(path)
    shapes = list(images(name))
    assert len(shapes) >= 20
    for shape in shapes:
        x = rng.normal(size=shape, scale=0.5).astype(np.float32)
        have, (want,) = machine.run(x).numpy(), other(x=x)
        assert have.shape == want.shape and have.dtype == want.dtype, shape
        assert np.abs(have - want).max(initial=0) <= NEAR, shape


@needs_ocr
@pytest.mark.parametrize("name", ["detection", "recognition"])
def test_only_the_result_of_a_model_is_copied_to_the_host(name: str) -> None:
    from ocr import model_file

    explained = relay.compile(model_file(name), target="sim").explain()
    assert [t.what for t in explained.transfers if t.direction == DTOH] == ["result"]


@needs_ocr
@pytest.mark.extensive(device=[HOST])
@pytest.mark.parametrize("device", [HOST, "sim"])
def test_ocr_reads_the_page_that_it_draws(device: str, tmp_path: Path) -> None:
    from ocr import LEAST_READ, PAGE, page
    from PIL import Image

    done = run(ROOT / "examples" / "ocr.py", "--device", device, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    share = re.search(r"([\d.]+)% of the page's characters were read", done.stdout)
    assert share and float(share[1]) >= 100 * LEAST_READ
    texts = [line.partition("    ")[0] for line in done.stdout.splitlines()]
    assert texts[0] == PAGE[0] and texts[4] == PAGE[4]
    drawn = np.asarray(Image.open(tmp_path / "page_boxes.png")).astype(int)
    red = (drawn[..., 0] - drawn[..., 1] > 100).any(axis=1)
    assert drawn.shape[:2] == page().size[::-1] and (np.diff(red.astype(int)) == 1).sum() == len(PAGE), "a box for each line"


@needs_ocr
def test_ocr_reads_another_picture_and_an_empty_one() -> None:
    from ocr import page, reader

    read = reader()
    lines = read(page(("Hello, machine",)))
    assert [line.text for line in lines] == ["Hello, machine"] and lines[0].score > 0.9
    assert lines[0].box[0][0] == pytest.approx(40, abs=8) and lines[0].box[2][1] == pytest.approx(75, abs=12)
    assert read(page(())) == []


def test_the_share_of_characters_that_were_read() -> None:
    from ocr import Line, share_read

    lines = [Line([], text, 1.0) for text in ("one two", "thee")]
    assert share_read(lines, ("one two", "three")) == 12 / 13
    assert share_read([], ("one",)) == 0.0 and share_read(lines, ("one two", "thee")) == 1.0


# ---- speech in sounds ----------------------------------------------------------------------------------------------------


@needs_voice
@needs_onnxruntime
@pytest.mark.parametrize(
    ("model", "rate"), [("silero_vad", 16000), ("silero_vad_16k_op15", 16000), pytest.param("silero_vad", 8000, marks=EXTENSIVE)]
)  # fmt: skip
def test_the_probabilities_of_a_minute_of_sound(model: str, rate: int) -> None:
    from voice_activity import FRAMES, STATE, Detector, frames, model_file, synthesized

    sound, (samples, context) = synthesized(60, rate), FRAMES[rate]
    detector, other = Detector(rate, model=model), other_runtime(model_file(model))
    state, before = np.zeros(STATE, np.float32), np.zeros(context, np.float32)
    have, want = [], []
    for frame in frames(sound, samples):
        window, before = np.concatenate([before, frame])[None], frame[-context:]
        probability, state = other(input=window, state=state, sr=np.array(rate))
        want.append(float(probability[0, 0]))
        have.append(detector.probability(frame))
    assert len(have) == 1875 and np.abs(np.subtract(have, want)).max() <= NEAR
    assert min(want) < 0.1 and max(want) > 0.9, "the sound has speech and pauses"


@needs_voice
@needs_onnxruntime
@pytest.mark.extensive
def test_many_streams_at_once() -> None:
    from voice_activity import model_file

    rng, rates = np.random.default_rng(0), {16000: 576, 8000: 288}
    machine, other = relay.VirtualMachine(relay.compile(model_file())), other_runtime(model_file())
    for rate, length in rates.items():
        for streams in range(1, 12):
            have = want = np.zeros((2, streams, 128), np.float32)
            for _ in range(3):
                x = rng.normal(size=(streams, length), scale=0.1).astype(np.float32)
                first, have = (t.numpy() for t in machine.run(x, have, np.array(rate)))
                second, want = other(input=x, state=want, sr=np.array(rate))
                assert first.shape == second.shape and np.abs(first - second).max() <= NEAR
                assert np.abs(have - want).max() <= NEAR


@needs_voice
def test_the_state_stays_on_the_device() -> None:
    from voice_activity import Detector

    detector = Detector(16000, device="sim", model="silero_vad_16k_op15")
    machine, frame = detector._machine, np.zeros(512, np.float32)
    detector.probability(frame)
    before = machine.counters
    detector.probability(frame)
    after = machine.counters
    assert detector._state.device == "sim"
    assert after["dtoh_bytes"] - before["dtoh_bytes"] == 4, "the probability"


@needs_voice
def test_voice_activity(tmp_path: Path) -> None:
    from voice_activity import synthesized

    done = run(ROOT / "examples" / "voice_activity.py")
    assert done.returncode == 0, done.stdout + done.stderr
    spoken = re.search(r"^([\d.]+) s of 12\.00 s are speech; 375 frames$", done.stdout, re.MULTILINE)
    assert spoken and 3 < float(spoken[1]) < 11
    # the same sound as a file of two channels and three times the rate
    path, sound = tmp_path / "sound.wav", np.repeat(synthesized(), 3)
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, 48000, 0, "NONE", ""))
        file.writeframes(np.repeat((sound * 32767).astype("<i2"), 2).tobytes())
    again = run(ROOT / "examples" / "voice_activity.py", path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.splitlines()[:-1] == done.stdout.splitlines()[:-1]


def test_stretches_of_speech() -> None:
    from voice_activity import frames, speech

    high, low, between = [0.9], [0.1], [0.4]
    assert speech(low * 5, 0.05) == [] == speech([], 0.05)
    assert speech(low + high * 2 + low * 2 + high, 0.05) == [(1 * 0.05, 3 * 0.05), (5 * 0.05, 6 * 0.05)]
    assert speech(high + low + high + low * 2, 0.05) == [(0.0, 3 * 0.05)], "one quiet frame is no pause"
    assert speech(between * 3, 0.05) == [] and speech(high + between * 3, 0.05) == [(0.0, 4 * 0.05)]
    parts: list[Any] = [part.tolist() for part in frames(np.ones(3, np.float32), 2)]
    assert parts == [[1.0, 1.0], [1.0, 0.0]]


def test_sounds_that_cannot_be_read(tmp_path: Path) -> None:
    from voice_activity import read

    path = tmp_path / "sound.wav"
    for width, rate, words in [(1, 16000, "has 8 bits per sample"), (2, 44100, "has 44100 samples per second")]:
        with wave.open(str(path), "wb") as file:
            file.setparams((1, width, rate, 0, "NONE", ""))
            file.writeframes(bytes(width))
        with pytest.raises(SystemExit, match=words):
            read(path)
