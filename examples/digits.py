"""Run `digits.relay` on the 1797 UCI digits: accuracy on the held-out half, and the mean picture of one digit.

python examples/digits.py [--digit 3] [--device cpu|sim|cuda] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

import relayvm as relay

HERE = Path(__file__).parent
FIRST_HELD_OUT = 1797 // 2
LEAST_ACCURACY = 0.95


def load() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The images in 0..1 (1797, 64), their labels, and the weights by parameter name."""
    with np.load(HERE / "digits" / "digits.npz") as data, np.load(HERE / "digits" / "weights.npz") as weights:
        return data["images"].astype(np.float32) / 16, data["labels"], dict(weights)


def expected(images: np.ndarray, classes: np.ndarray, digit: int, box: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
    """The last two results by numpy, from the first result: the indices of the digit, the mean crop."""
    found = np.flatnonzero(classes == digit)
    total = images[found].reshape(-1, 8, 8)[:, *box].sum(axis=0)
    return found, total / max(len(found), 1)


def png(path: Path, image: np.ndarray, zoom: int = 32) -> None:
    """Write a picture with values in 0..1 as a grey PNG, each pixel a square of ``zoom``."""
    grey = np.kron(np.round(image * 255), np.ones((zoom, zoom))).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in grey)  # 0: no filter

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)  # 8 bits, grey
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def drawn(image: np.ndarray) -> str:
    """The picture as characters."""
    return "\n".join("    " + "".join(" .:-=+*#%@"[min(int(v * 10), 9)] * 2 for v in row) for row in image)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--digit", type=int, default=3, choices=range(10), metavar="0..9")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("build/examples"), help="folder of the mean picture")
    args = parser.parse_args()

    images, labels, weights = load()
    module = relay.parse((HERE / "digits.relay").read_text(), source_name="digits.relay")
    vm = relay.VirtualMachine(relay.compile(module, target=args.device, params=weights))

    # All images at once, then a batch with nothing in it: the same executable.
    for batch in (images, images[:0]):
        corner, end = np.array([0, 1], np.int64), np.array([8, 7], np.int64)
        result = vm.run(images=batch, digit=np.int32(args.digit), top_left=corner, bottom_right=end)
        classes, found, mean = (t.numpy() for t in result)
        want_found, want_mean = expected(batch, classes, args.digit, (slice(0, 8), slice(1, 7)))
        if not np.array_equal(found, want_found) or not np.allclose(mean, want_mean, atol=1e-5):
            print(f"with {len(batch)} images the result differs from numpy's", file=sys.stderr)
            return 1
        if len(batch):
            right = classes == labels
            image = mean
            print(f"digits.relay on {args.device}, {len(batch)} images")
            print(f"  accuracy on the held-out half: {right[FIRST_HELD_OUT:].mean():.1%}")
            print(f"  classified as {args.digit}: {len(found)}; their mean, cropped to {mean.shape[0]} x {mean.shape[1]}:")
            print(drawn(mean))
            accurate = right[FIRST_HELD_OUT:].mean() >= LEAST_ACCURACY
        else:
            print(f"  with no images at all: {len(found)} found, mean of shape {mean.shape}, all zero: {not mean.any()}")

    target = args.out / f"mean_{args.digit}.png"
    png(target, image)
    print(f"  the picture: {target}")
    if not accurate:
        print(f"the accuracy is below {LEAST_ACCURACY:.0%}", file=sys.stderr)
    return 0 if accurate else 1


if __name__ == "__main__":
    raise SystemExit(main())
