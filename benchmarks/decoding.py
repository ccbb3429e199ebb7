"""Tokens a second of a decoder in the machine's loop, beside onnxruntime driven from Python with bound buffers; one thread.

    pip install 'relayvm[bench]'
    python benchmarks/decoding.py [--rounds 5] [--prompt 128] [--count 128] [--form shared|joined] [--bits 0|4] [--json]

The model has random weights, 6 layers of 512 (benchmarks/decoder_models.py).  Both write the most likely tokens after one prompt,
the same ones, or there is no benchmark.

relayvm      ``relay.generation.loop``: a call writes all tokens
streaming    the same, with a function in Python that gets each token (``on_tokens``)
onnxruntime  a step for each token; the caches are buffers of the length of the whole text, bound as inputs and results, and
             written in place; the logits are bound, too, and numpy takes the most likely token

float32      with ``--bits 4``: as relayvm, of the model in float32
bound        no program: what the CPU and its memory allow, measured in the same rounds

With ``--bits 4`` the weights of products are MatMulNBits in blocks of 32, multiplied by data of float32.  The prompt has no goal
then, and the goals of a token are 1.1 times the speed of onnxruntime and 2 times that of float32.

A time is processor time: of the prompt and its first token, and of each token after them.  The bytes of caches are those of the
kernels that write them, by a profile: of a token the difference of two runs.

The bound of a token is the time of reading once as many bytes as the weights of the step's products and the mean number of cache
rows have.  Loops of read_rate.py add lines of some streams in registers; the number of streams is the fastest one in the round.
Bytes beyond the caches come from memory there, as in the step.  The bound of the prompt is the time of its multiply-adds at the
peak of fma_peak.py, or that of reading the weights, if it is longer.  The multiply-adds are those of the products and of
attention to the positions up to each query; in the last layer only keys and values have more than one row.  Both leave out norms,
the softmax, the choice of the token and all calls.

The goals are 1.2 times the speed of onnxruntime for the prompt and a token, 1.5 times for a token in the loop.  Where the bound
allows less than 1.1 times a goal, the line holds at 1.1 times the bound.  ``of bound``: a time over that of the bound.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from decoder_models import Sizes, decoder
from few_bit_weights import BITS, with_few_bits
from fma_peak import peak_gflops
from onnx import numpy_helper
from read_rate import Memory

import relayvm as relay

OURS, STREAMING, PEER, FLOATS, BOUND = "relayvm", "streaming", "onnxruntime", "float32", "bound"
#: The goals: what is measured (0: the prompt, 1: a token), and the speed over that of another.
GOALS = (("prompt", 0, PEER, 1.2), ("decode", 1, PEER, 1.2), ("loop", 1, PEER, 1.5))
GOALS_OF_BITS = (("decode", 1, PEER, 1.1), ("decode", 1, FLOATS, 2.0))
#: The time over that of the bound at which a line holds whose goal the bound forbids.
NEAR = 1.1


class Ours:
    """The loop in the machine."""

    def __init__(self, model: Any, on_tokens: Callable[[np.ndarray], object] | None = None) -> None:
        self.write, self.on_tokens = relay.generation.loop(model), on_tokens

    def tokens(self, prompt: np.ndarray, count: int) -> tuple[list[int], float, float]:
        """The tokens; seconds of the prompt with the first token, and of the others."""
        began = time.process_time()
        self.write([prompt], 1, on_tokens=self.on_tokens)
        between = time.process_time()
        found = self.write([prompt], count, on_tokens=self.on_tokens)[0].tolist()
        first = between - began
        return found, first, time.process_time() - between - first

    def cache_bytes(self, prompt: np.ndarray, count: int) -> dict[str, float]:
        """Bytes that a token allocates, and that are written to caches: by appends, and by the growth of full buffers."""
        rows: list[dict[str, int]] = []
        for limit in (2, count + 2):
            vm = self.write.vm
            given = self.write.arguments([prompt], limit)
            before = vm.counters["alloc_bytes"]
            vm.run(*given)
            found = {"allocated": vm.counters["alloc_bytes"] - before}
            profile = vm.profile(*given, repeat=1, warmup=0)
            for row in profile.activities:
                for name in ("scatter_nd", "concatenate", "transpose"):
                    if name in row.name:
                        found[name] = found.get(name, 0) + row.nbytes
            rows.append(found)
        return {name: (rows[1].get(name, 0) - rows[0].get(name, 0)) / count for name in sorted({*rows[0], *rows[1]})}


class Peer:
    """A session of one step, with bound buffers."""

    def __init__(self, model: Any, sizes: Sizes) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.value, self.sizes = ort.OrtValue.ortvalue_from_numpy, sizes
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.results = [o.name for o in self.session.get_outputs()]
        self.is_shared = "position_ids" not in self.inputs

    def tokens(self, prompt: np.ndarray, count: int) -> tuple[list[int], float, float]:
        """As of ``Ours``."""
        s, length = self.sizes, len(prompt)
        whole = length + count if self.is_shared else 0
        caches = [self.value(np.zeros((1, s.shared, whole, s.size), s.dtype)) for _ in self.results[1:]]
        began = time.process_time()
        token, caches = self.step(prompt[None], length, caches)
        first, found = time.process_time() - began, [token]
        began = time.process_time()
        for k in range(1, count):
            token, caches = self.step(np.array([[found[-1]]]), length + k, caches)
            found.append(token)
        return found, first, time.process_time() - began

    def step(self, ids: np.ndarray, total: int, caches: list[Any]) -> tuple[int, list[Any]]:
        """The most likely token, and the caches."""
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", np.ones((1, total), np.int64))
        if not self.is_shared:
            binding.bind_cpu_input("position_ids", np.arange(total - ids.shape[1], total)[None])
        for name, cache in zip([i for i in self.inputs if i.startswith("past")], caches, strict=True):
            binding.bind_ortvalue_input(name, cache)
        binding.bind_output("logits", "cpu")
        for name, cache in zip(self.results[1:], caches, strict=True):
            if self.is_shared:
                binding.bind_ortvalue_output(name, cache)
            else:
                binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding)
        made = binding.get_outputs()
        return int(made[0].numpy()[0, -1].argmax()), caches if self.is_shared else list(made[1:])


class Bound:
    """The least work of a prompt and of a token, at the rates of this machine."""

    def __init__(self, model: Any, sizes: Sizes, prompt: int, count: int) -> None:
        weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
        # the weight of MatMul, and the bytes and scales of MatMulNBits
        products = [n for n in model.graph.node if n.op_type.startswith("MatMul") and n.input[1] in weights]
        self.read = Memory(sum(weights[name].nbytes for n in products for name in n.input[1:]))
        width = 2 * sizes.layers * sizes.shared * sizes.size * np.dtype(sizes.dtype).itemsize
        self.step = Memory(self.read.nbytes + (prompt + count // 2) * width)
        numbers = [weights[n.input[1]].size * (1 if len(n.input) == 2 else 8 // BITS) for n in products]
        layer = sum(numbers[:-1]) // sizes.layers
        of_keys = 2 * sizes.width * sizes.shared * sizes.size
        all_rows, pairs = (sizes.layers - 1) * layer + of_keys, (sizes.layers - 1) * prompt * (prompt + 1) // 2 + prompt
        self.operations = 2 * (prompt * all_rows + layer - of_keys + numbers[-1] + 2 * sizes.width * pairs)

    def ms(self) -> tuple[float, float]:
        """The least times of the prompt and of a token now."""
        multiplied = self.operations / peak_gflops() / 1e9
        return max(multiplied, self.read.seconds()) * 1e3, self.step.seconds() * 1e3


def verdicts(medians: dict[str, tuple[float, float]]) -> list[str]:
    """A line for each goal: the speed over that of another, the time over that of the bound, and whether it holds."""
    found = []
    for name, k, other, goal in GOALS_OF_BITS if FLOATS in medians else GOALS:
        ours, peer, bound = (medians[who][k] for who in (OURS, other, BOUND))
        by = f"{peer / ours:.2f} times {other}'s speed, goal {goal}"
        if peer / ours >= goal:
            how = "holds"
        elif peer / bound < goal * NEAR:
            how = f"{'holds' if ours <= NEAR * bound else 'fails'} at {NEAR} times the bound, which allows {peer / bound:.2f}"
        else:
            how = f"fails; the bound allows {peer / bound:.2f}"
        found.append(f"{name}: {by}; {ours / bound:.2f} of the bound: {how}")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("rounds", 5), ("prompt", 128), ("count", 128)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--form", choices=("shared", "joined"), default="shared")
    parser.add_argument("--bits", type=int, choices=(0, BITS), default=0, help="the bits of weights; 0: float32")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    sizes = Sizes()
    real = decoder(args.form, sizes)
    model = with_few_bits(real, accuracy_level=0) if args.bits else real
    machines = {OURS: Ours(model), STREAMING: Ours(model, lambda tokens: None), PEER: Peer(model, sizes)}
    if args.bits:
        machines[FLOATS] = Ours(real)
    prompt = np.random.default_rng(1).integers(0, sizes.tokens, args.prompt)
    texts = {name: machine.tokens(prompt, args.count)[0] for name, machine in machines.items()}
    if texts[OURS] != texts[PEER]:
        raise SystemExit(f"{PEER} writes other tokens: {texts[PEER][:8]}, not {texts[OURS][:8]}")
    bound = Bound(model, sizes, args.prompt, args.count)
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in (*machines, BOUND)}
    for _ in range(args.rounds):
        for name, machine in machines.items():
            _, first, others = machine.tokens(prompt, args.count)
            samples[name].append((first * 1e3, others * 1e3 / (args.count - 1)))
        samples[BOUND].append(bound.ms())
    columns = {name: list(zip(*taken, strict=True)) for name, taken in samples.items()}
    medians = {name: (statistics.median(first), statistics.median(each)) for name, (first, each) in columns.items()}
    of_bound = {name: [m / least for m, least in zip(both, medians[BOUND], strict=True)] for name, both in medians.items()}
    copied = machines[OURS].cache_bytes(prompt, args.count)
    if args.json:
        least = {name: [min(first), min(each)] for name, (first, each) in columns.items()}
        print(json.dumps({"ms": medians, "least ms": least, "of bound": of_bound, "bytes a token": copied}))
        return
    for name, (first, each) in medians.items():
        fastest = [min(column) for column in columns[name]]
        print(
            f"{name:12} prompt {first:8.2f} ms [{fastest[0]:.2f}] {of_bound[name][0]:5.2f} of bound   "
            f"token {each:8.3f} ms [{fastest[1]:.3f}] {of_bound[name][1]:5.2f} of bound   {1e3 / each:7.1f}/s"
        )
    print(*verdicts(medians), sep="\n")
    print("bytes a token: " + ", ".join(f"{name} {number:.0f}" for name, number in copied.items()))


if __name__ == "__main__":
    main()
