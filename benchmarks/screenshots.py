"""Images of the pages that people see: the site, the graph of a program, a comparison; on a desktop, a phone, and dark.

    python benchmarks/screenshots.py [--site build/site] [--out docs/images]

The images are drawn by a headless Chromium: `apt-get install chromium`, or the program that CHROMIUM names.  `make site` writes
the site; without it the images of the site are left as they are.  A phone is a frame of 390 pixels: windows are not so
narrow.  Each image is reduced to 256 colours, at most 150 kB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
TAIL = ROOT / "examples" / "detection_tail.relay"
#: The most bytes of an image.
MOST_BYTES = 150_000
#: A page that shows another one in a narrow frame.
_FRAME = '<body style="margin: 0"><iframe src="{}" style="border: 0; width: {}px; height: {}px"></iframe></body>'


@dataclass(frozen=True)
class View:
    """A kind of image: the end of its name, its width and height in pixels, and whether it is dark."""

    name: str
    width: int
    height: int
    is_dark: bool = False


VIEWS = (View("desktop", 1280, 800), View("dark", 1280, 800, is_dark=True), View("390", 390, 844))


def relayvm(*words: str) -> None:
    """Run a command of relayvm."""
    subprocess.run([sys.executable, "-m", "relayvm", *words], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def pages(folder: Path, site: Path) -> Iterator[tuple[str, Path]]:
    """The name and the file of each page that there is."""
    sizes = ("--dim", "n=2000", "--device", "sim", "--repeat", "5")
    relayvm("show", str(TAIL), *sizes, "--run", "--html", str(folder / "graph.html"))
    relayvm("compare", str(TAIL), *sizes, "--preset", "data-dependence", "--html", str(folder / "compare.html"))
    yield "graph", folder / "graph.html"
    yield "comparison", folder / "compare.html"
    if (site / "index.html").exists():
        yield "site", site / "index.html"
    else:
        print(f"there is no {site / 'index.html'}: make site", file=sys.stderr)


def draw(page: Path, view: View, folder: Path, out: Path) -> None:
    """Write the image of a page.  Exits if Chromium fails, or the image is too large."""
    frame = folder / "frame.html"
    frame.write_text(_FRAME.format(page.resolve().as_uri(), view.width, view.height))
    drawn = folder / "drawn.png"
    command = [
        os.environ.get("CHROMIUM") or shutil.which("chromium") or "google-chrome", "--headless", "--no-sandbox", "--disable-gpu",
        "--hide-scrollbars", "--allow-file-access-from-files", "--virtual-time-budget=4000",
        f"--blink-settings=preferredColorScheme={0 if view.is_dark else 1}",
        f"--window-size={max(view.width, 600)},{view.height}",
        f"--screenshot={drawn}", frame.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = Image.open(drawn).convert("RGB").crop((0, 0, view.width, view.height))
    image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, optimize=True)
    if out.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{out} has {out.stat().st_size} bytes, more than {MOST_BYTES}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site", help="the folder of the site")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="the folder of the images")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relayvm-images-") as name:
        folder = Path(name)
        for page, path in pages(folder, args.site):
            for view in VIEWS:
                out = args.out / f"{page}-{view.name}.png"
                draw(path, view, folder, out)
                print(f"{out}: {out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
