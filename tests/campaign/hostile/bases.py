"""The programs that are mutated."""

from __future__ import annotations

import functools

import relayvm as relay
from relayvm.vm.bytecode.executable_file import to_bytes

from ...programs import HEADER

PROGRAMS = {
    "elementwise": "def @main(%x: Tensor[(?n, 3), float32], %y: Tensor[(?n, 3), float32]) { nn.relu(%x - %y) * 2f + exp(%x) }",
    "broadcast": """def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, ?), float32]) {
  let %z = add(%x, %y); (sum(%z, axis=[1]), %z) }""",
    "dense": """def @main(%x: Tensor[(?n, 8), float32], %w: Tensor[(5, 8), float32]) {
  let %y = nn.softmax(nn.dense(%x, %w)); (%y, nn.dense(%y, %y)) }""",
    "join": """def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  let %j = concatenate((sort(%x), exp(%y)), axis=0); (%j, strided_slice(%j, begin=[1], end=[3])) }""",
    "reshaped": "def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) { dyn.reshape(exp(%x), %s) }",
    "sliced": """def @main(%x: Tensor[(?, 4), float32], %b: Tensor[(2), int64], %e: Tensor[(2), int64], %s: Tensor[(2), int64]) {
  dyn.strided_slice(%x, %b, %e, %s) + 1f }""",
    "repeated": """def @main(%x: Tensor[(?, 4), float32], %s: Tensor[(2), int64]) {
  (dyn.tile(%x, %s), dyn.broadcast_to(sum(%x), %s)) }""",
    "found": "def @main(%x: Tensor[(?), float32]) { let %i = argwhere(greater(%x, 2f)); (%i, negative(squeeze(%i, axis=[1]))) }",
    "unique": "def @main(%x: Tensor[(?), float32]) { (unique(%x), topk(%x, k=2), argsort(%x, is_ascend=False)) }",
    "taken": """def @main(%x: Tensor[(?, 4), float32], %i: Tensor[(?), int64]) {
  (take(%x, %i, axis=0, mode="clip"), gather_nd(%x, reshape(%i, newshape=[1, -1])), one_hot(%i, 1f, 0f, depth=3)) }""",
    "scattered": """def @main(%x: Tensor[(?n, 4), float32], %i: Tensor[(1, ?m), int64], %u: Tensor[(?m, 4), float32]) {
  scatter_nd(%x, %i, %u) * 2f }""",
    "recursion": """def @loop(%i: int64, %n: int64, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] {
  if (less(%i, %n)) { @loop(%i + 1i64, %n, concatenate((%x, %x), axis=0)) } else { %x } }
def @main(%n: int64, %x: Tensor[(?, 4), float32]) -> Tensor[(?, 4), float32] { @loop(0i64, minimum(%n, 3i64), %x) }""",
    "closure": """def @main(%x: Tensor[(?, 4), float32], %c: bool) {
  let %f = fn (%y: Tensor[(?, 4), float32]) { add(%y, %x) };
  let %r = if (%c) { %f(%x) } else { exp(%x) }; let %t = (%r, %x); multiply(%t.0, %t.1) }""",
    "tuples": """def @main(%t: (Tensor[(?, 2), float32], (int32, Tensor[(3), bool]))) {
  (cast(%t.1.1, dtype="float32"), sum(%t.0, axis=[1], keepdims=True), %t.1.0) }""",
    "convolution": """def @main(%x: Tensor[(1, 2, ?, ?), float32], %w: Tensor[(3, 2, 3, 3), float32]) {
  nn.max_pool2d(nn.conv2d(%x, %w, padding=[1, 1]), pool_size=[2, 2]) }""",
    "boxes": """def @main(%b: Tensor[(1, ?n, 6), float32]) {
  let %v = vision.get_valid_counts(%b, 0.5f, id_index=0, score_index=1); (%v.0, %v.1) }""",
}
TARGETS = ("cpu", "sim")


@functools.cache
def base(name: str, target: str) -> bytes:
    """The file of one of PROGRAMS; parameters called ``w`` are constants in it."""
    text = PROGRAMS[name]
    params = {}
    if "%w:" in text:
        import numpy as np

        shape = (5, 8) if name == "dense" else (3, 2, 3, 3)
        params = {"w": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    return to_bytes(relay.compile(HEADER + text, target, params))
