"""Random words by Threefry-4x64 on CUDA: a thread per four words."""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import dim, product
from ...codegen.cuda.assembly import Assembly, blocks, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from .cpu import PARITY, ROTATIONS, ROUNDS

_THREADS = 256

_HASH = Template("""
DEVICE uint64 rotated(uint64 x, int bits) { return x << bits | x >> (64 - bits); }
DEVICE void threefry(const uint64* key, uint64 a, uint64 b, uint64 c, uint64 d, uint64* out) {
  const int first[8] = {$first}, second[8] = {$second};
  uint64 words[5] = {key[0], key[1], key[2], key[3], uint64(${parity}ull) ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  a += words[0], b += words[1], c += words[2], d += words[3];
#pragma unroll
  for (int turn = 0; turn < $rounds; ++turn) {
    a += b, c += d;
    uint64 other = rotated(b, first[turn % 8]) ^ a;
    b = rotated(d, second[turn % 8]) ^ c, d = other;
    if (turn % 4 == 3) {
      int group = turn / 4 + 1;
      a += words[group % 5], b += words[(group + 1) % 5];
      c += words[(group + 2) % 5], d += words[(group + 3) % 5] + uint64(group);
    }
  }
  out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}
DEVICE void move_place(const uint64* key, uint64* new_key) {
  new_key[8] = key[8] >> 1;
  new_key[9] = key[9] >> 1 | key[8] << 63;
}
DEVICE void new_words(const uint64* key, uint64* new_key, uint64 c, uint64 d) {
  threefry(key, key[4], key[5], c, d, new_key);
  for (int k = 4; k < 10; ++k) new_key[k] = 0;
}
""").substitute(first=", ".join(map(str, ROTATIONS[0])), second=", ".join(map(str, ROTATIONS[1])), parity=PARITY, rounds=ROUNDS)

_CARRIED = """
  if (threadIdx.x != 0) return;
  for (int k = 0; k < 10; ++k) new_key[k] = key[k];
  uint64 ones = ~uint64(0);
  if (!(key[7] < ones - uint64(count))) {
    if (key[8] == 0 && key[9] == 0) {
      new_words(key, new_key, ones, ones);
      new_key[8] = uint64(1) << 63;
    } else {
      new_key[4] = key[4] | key[8], new_key[5] = key[5] | key[9], new_key[6] = 0, new_key[7] = 0;
      move_place(key, new_key);
    }
  }
  new_key[7] += uint64(count);"""

_GENERATE = Template("""
  int64 step = gridDim.x * int64($THREADS);
  for (int64 block = blockIdx.x * int64($THREADS) + threadIdx.x; block * 4 < count; block += step) {
    uint64 words[4];
    threefry(new_key, new_key[4], new_key[5], new_key[6], new_key[7] - uint64(count) + uint64(block), words);
    for (int k = 0; k < 4 && block * 4 + k < count; ++k) bits[block * 4 + k] = words[k];
  }""").substitute(THREADS=_THREADS)

_SPLIT = """
  if (threadIdx.x != 0) return;
  if (key[8] == 0 && key[9] == 0) {
    new_words(key, left, key[6], key[7]);
    new_words(key, right, key[6], key[7]);
    left[8] = right[8] = uint64(1) << 62;
    right[4] = uint64(1) << 63;
  } else {
    for (int k = 0; k < 8; ++k) left[k] = right[k] = key[k];
    right[4] = key[4] | key[8], right[5] = key[5] | key[9];
    move_place(key, left);
    move_place(key, right);
  }"""


def threefry_generate(call: OpaqueCall) -> CudaSource:
    """Random words: the hashes of consecutive counters; the counter of the new key is after them."""
    key, (new_key, bits) = call.inputs[0], call.results
    assembly, count = Assembly(), product(bits.shape)
    assembly.text(_HASH)
    parameters = reads("key", key), writes("new_key", new_key), writes("bits", bits), size("count", count)
    assembly.kernel("with_room", 32, parameters, _CARRIED)
    assembly.launch("with_room", dim(1))
    assembly.kernel("generate", _THREADS, parameters, _GENERATE)
    assembly.launch("generate", blocks(count, 4 * _THREADS))
    return assembly.source()


def threefry_split(call: OpaqueCall) -> CudaSource:
    """Two keys: the path followed by a 0, and by a 1."""
    (key,), (left, right) = call.inputs, call.results
    assembly = Assembly()
    assembly.text(_HASH)
    assembly.kernel("split_key", 32, (reads("key", key), writes("left", left), writes("right", right)), _SPLIT)
    assembly.launch("split_key", dim(1))
    return assembly.source()
