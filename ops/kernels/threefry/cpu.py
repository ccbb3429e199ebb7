"""Random words by Threefry-4x64 with 20 rounds: a hash of a counter under a key (Salmon et al. 2011, "Parallel Random Numbers: As
Easy as 1, 2, 3").

A key is ten words: four of Threefry's key, the path (two words, one bit per split), the counter (two words, of which the last one
counts), and the place of the path's next bit (two words with one bit, or 0 for a full path): encoding e4 of Claessen and Pałka
2013, "Splittable Pseudorandom Number Generators using Cryptographic Hashing".  Path and counter are what Threefry hashes.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Word, generic
from ...native.status import OK

#: By round modulo 8, the rotations of both pairs of words (Salmon et al. 2011, table 2).
ROTATIONS = (14, 52, 23, 5, 25, 46, 58, 32), (16, 57, 40, 37, 33, 12, 22, 32)
#: The parity of the key schedule.
PARITY = 0x1BD11BDAA9FC1A22
ROUNDS = 20

_FIRST, _SECOND = ROTATIONS
_ONES, _TOP = 2**64 - 1, 2**63


@generic
def rotated(x: Word, bits: int) -> Word:
    """The bits of a word rotated to the left."""
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@generic
def threefry(key: Array, a: Word, b: Word, c: Word, d: Word) -> tuple[Word, Word, Word, Word]:
    """The hash of four words under the first four words of ``key``."""
    words = key[0], key[1], key[2], key[3], np.uint64(PARITY) ^ key[0] ^ key[1] ^ key[2] ^ key[3]
    a, b, c, d = a + words[0], b + words[1], c + words[2], d + words[3]
    for turn in range(ROUNDS):
        a, c = a + b, c + d
        b, d = rotated(d, _SECOND[turn % 8]) ^ c, rotated(b, _FIRST[turn % 8]) ^ a
        if turn % 4 == 3:
            group = turn // 4 + 1
            a, b = a + words[group % 5], b + words[(group + 1) % 5]
            c, d = c + words[(group + 2) % 5], d + words[(group + 3) % 5] + np.uint64(group)
    return a, b, c, d


@generic
def move_place(key: Array, new_key: Array) -> None:
    """Move the place of the path's next bit to the right."""
    new_key[8] = key[8] >> np.uint64(1)
    new_key[9] = (key[9] >> np.uint64(1)) | (key[8] << np.uint64(63))


@generic
def new_words(key: Array, new_key: Array, c: Word, d: Word) -> None:
    """Hash the path and two more words to a key with an empty path and the counter 0."""
    new_key[0], new_key[1], new_key[2], new_key[3] = threefry(key, key[4], key[5], c, d)
    for k in range(4, 10):
        new_key[k] = np.uint64(0)


@generic
def carried(key: Array, new_key: Array, count: Word) -> None:
    """The key itself, or one with a longer path where the counter has no room for ``count``, or one with another hash where the
    path has no room either."""
    for k in range(10):
        new_key[k] = key[k]
    if key[7] < np.uint64(_ONES) - count:
        return
    if key[8] == np.uint64(0) and key[9] == np.uint64(0):
        new_words(key, new_key, np.uint64(_ONES), np.uint64(_ONES))
        new_key[8] = np.uint64(_TOP)
        return
    new_key[4], new_key[5] = key[4] | key[8], key[5] | key[9]
    new_key[6] = new_key[7] = np.uint64(0)
    move_place(key, new_key)


@generic
def threefry_generate(key: Array, new_key: Array, bits: Array) -> int:
    """Random words: the hashes of consecutive counters; the counter of the new key is after them."""
    count = len(bits)
    carried(key, new_key, np.uint64(count))
    for block in range((count + 3) // 4):
        a, b, c, d = threefry(new_key, new_key[4], new_key[5], new_key[6], new_key[7] + np.uint64(block))
        at = 4 * block
        bits[at] = a
        if at + 1 < count:
            bits[at + 1] = b
        if at + 2 < count:
            bits[at + 2] = c
        if at + 3 < count:
            bits[at + 3] = d
    new_key[7] = new_key[7] + np.uint64(count)
    return OK


@generic
def threefry_split(key: Array, left: Array, right: Array) -> int:
    """Two keys: the path followed by a 0, and by a 1."""
    if key[8] == np.uint64(0) and key[9] == np.uint64(0):
        new_words(key, left, key[6], key[7])
        new_words(key, right, key[6], key[7])
        left[8] = right[8] = np.uint64(_TOP >> 1)
        right[4] = np.uint64(_TOP)
        return OK
    for k in range(8):
        left[k] = right[k] = key[k]
    right[4], right[5] = key[4] | key[8], key[5] | key[9]
    move_place(key, left)
    move_place(key, right)
    return OK
