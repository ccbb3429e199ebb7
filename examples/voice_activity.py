"""Speech in a sound: the seconds at which a voice begins and ends, found while the sound streams.

    python examples/voice_activity.py [SOUND.wav] [--device cpu|sim|cuda] [--model NAME]

Without SOUND.wav the program makes a sound of its own: sentences of sung vowels, and pauses.

A model of the package `silero-vad` runs on the virtual machine: `pip install 'relayvm[voice]'`, or
`pip install --no-deps silero-vad`, for the program uses the model's file only.  Each call takes the next 32 ms of sound and the
state of a recurrent network, and returns the probability of speech and the next state.  The state stays on the device.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay

#: The samples of a frame, and of the sound before it that the model also takes, by sample rate.
FRAMES = {16000: (512, 64), 8000: (256, 32)}
STATE = (2, 1, 128)
#: Speech begins at a probability of at least BEGIN, and ends when it is below END for QUIET_S seconds.
BEGIN, END, QUIET_S = 0.5, 0.35, 0.1
MODELS = ("silero_vad", "silero_vad_16k_op15")


def model_file(name: str = MODELS[0]) -> Path:
    """The file of a model in the installed package, which is not imported: it needs torch."""
    found = importlib.util.find_spec("silero_vad")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package silero-vad is not installed: pip install --no-deps silero-vad")
    return Path(found.submodule_search_locations[0]) / "data" / f"{name}.onnx"


def read(path: Path) -> tuple[np.ndarray, int]:
    """The samples of a WAV file of 16 bits in -1..1, the mean of its channels, and its sample rate."""
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path} has {8 * file.getsampwidth()} bits per sample; 16 are wanted")
        rate, channels = file.getframerate(), file.getnchannels()
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    sound = data.reshape(-1, channels).mean(axis=1, dtype=np.float32) / np.float32(32768)
    step = rate // 16000 if rate % 16000 == 0 else 1
    if rate // step not in FRAMES:
        raise SystemExit(f"{path} has {rate} samples per second; 8000 and multiples of 16000 are possible")
    return sound[::step], rate // step


def synthesized(seconds: float = 12.0, rate: int = 16000, seed: int = 0) -> np.ndarray:
    """Sentences of about two seconds, each followed by a pause: harmonics of a voice, weighted by the formants of vowels."""
    rng = np.random.default_rng(seed)
    vowels = np.array([(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)])
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < seconds * rate:
        pitch = rng.uniform(95, 210)
        for _ in range(rng.integers(5, 11)):  # the syllables of a sentence
            t = np.arange(int(rate * rng.uniform(0.14, 0.26))) / rate
            f0 = pitch * (1 + 0.06 * np.sin(2 * np.pi * 3 * t + rng.uniform(0, 6)) - 0.15 * t)
            phase, nearby = 2 * np.pi * np.cumsum(f0) / rate, vowels[rng.integers(len(vowels))] * rng.uniform(0.95, 1.1)
            voice = np.zeros(len(t))
            for k in range(1, int(3800 / pitch)):
                gain = sum(1 / (1 + ((k * f0 - f) / (60 + 0.04 * f)) ** 2) for f in nearby) / k**0.5
                voice += gain * np.sin(k * phase)
            noise = rng.normal(size=int(rate * rng.uniform(0.02, 0.07))) * 0.05  # a consonant
            parts += [voice * np.sin(np.pi * np.arange(len(t)) / len(t)) ** 0.4 * 0.12, noise]
        parts.append(rng.normal(size=int(rate * rng.uniform(0.7, 1.6))) * 0.001)
    return np.concatenate(parts)[: int(seconds * rate)].astype(np.float32)


class Detector:
    """The probability of speech in each frame of a stream."""

    def __init__(self, rate: int, device: str = "cpu", model: str = MODELS[0]) -> None:
        self._machine = relay.VirtualMachine(relay.compile(model_file(model), target=device))
        self._rate = np.array(rate, np.int64)
        self.samples, context = FRAMES[rate]
        self._context = np.zeros((1, context), np.float32)
        self._state: Any = np.zeros(STATE, np.float32)

    def probability(self, frame: np.ndarray) -> float:
        """The probability of speech in the next ``samples`` samples."""
        window = np.concatenate([self._context, frame[None]], axis=1)
        self._context = window[:, -self._context.shape[1] :]
        found, self._state = self._machine.run(window, self._state, self._rate)  # the state is a tensor of the device
        return float(found.numpy()[0, 0])


def frames(sound: np.ndarray, samples: int) -> Iterator[np.ndarray]:
    """The sound in frames of equal length; the last is filled with silence."""
    for start in range(0, len(sound), samples):
        frame = sound[start : start + samples]
        yield np.pad(frame, (0, samples - len(frame)))


def speech(probabilities: list[float], frame_s: float) -> list[tuple[float, float]]:
    """Begin and end of each stretch of speech, in seconds."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    quiet: int | None = None  # the first of the quiet frames up to now
    for number, p in enumerate(probabilities):
        if begin is None:
            begin, quiet = (number, None) if p >= BEGIN else (None, None)
        elif p >= END:
            quiet = None
        else:
            quiet = number if quiet is None else quiet
            if (number + 1 - quiet) * frame_s >= QUIET_S:
                found.append((begin, quiet))
                begin = None
    if begin is not None:
        found.append((begin, len(probabilities)))
    return [(first * frame_s, end * frame_s) for first, end in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sound", nargs="?", type=Path, metavar="SOUND.wav")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    parser.add_argument("--model", default=MODELS[0], choices=MODELS)
    args = parser.parse_args()

    sound, rate = (synthesized(), 16000) if args.sound is None else read(args.sound)
    detector = Detector(rate, args.device, args.model)
    found = [detector.probability(frame) for frame in frames(sound, detector.samples)]
    for begin, end in speech(found, detector.samples / rate):
        print(f"{begin:8.2f} s to {end:8.2f} s")
    spoken = sum(end - begin for begin, end in speech(found, detector.samples / rate))
    print(f"{spoken:.2f} s of {len(sound) / rate:.2f} s are speech; {len(found)} frames")
    return 0


if __name__ == "__main__":
    sys.exit(main())
