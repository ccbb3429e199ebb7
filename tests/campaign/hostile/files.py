"""The parts of an executable's file, and the file made from such parts: with a correct checksum, for any contents."""

from __future__ import annotations

import copy
import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

from relayvm.vm.bytecode import isa
from relayvm.vm.bytecode.executable_file import FORMAT_VERSION, MAGIC

HEAD, CHECKSUM, ALIGNMENT = struct.Struct("<8s4Q"), 64, 64


@dataclass
class Sections:
    """Header, code of each function, bytes of the constants."""

    header: dict[str, Any]
    code: list[list[int]]
    constants: bytes

    @staticmethod
    def of(data: bytes) -> Sections:
        """The parts of a file."""
        _, _, n_header, n_code, _ = HEAD.unpack(data[: HEAD.size])
        at = HEAD.size + n_header
        header = json.loads(data[HEAD.size : at])
        words = list(struct.unpack(f"<{n_code // 8}q", data[at : at + n_code]))
        code = []
        for function in header["functions"]:
            code.append(words[: function["words"]])
            words = words[function["words"] :]
        end = at + n_code
        return Sections(header, code, data[end + -end % ALIGNMENT : -CHECKSUM])

    def copy(self) -> Sections:
        """A copy that can be changed."""
        return Sections(copy.deepcopy(self.header), [list(c) for c in self.code], self.constants)

    def instructions(self, function: int) -> list[isa.Instruction | isa.Label]:
        """A function taken apart, jumps as labels.  Raises EncodingError."""
        found = isa.disassemble(self.code[function])
        labels = {pc: isa.Label() for pc, _ in found}
        out: list[isa.Instruction | isa.Label] = []
        for pc, instruction in found:
            values = {
                name: labels.get(pc + getattr(instruction, name), getattr(instruction, name))
                for name, kind in instruction.operands.items()
                if kind.table == "code"
            }
            rest = {name: getattr(instruction, name) for name in instruction.operands if name not in values}
            out += [labels[pc], type(instruction)(**rest, **values)]
        return out

    def put(self, function: int, items: list[isa.Instruction | isa.Label]) -> None:
        """Give a function other instructions.  Raises OverflowError, KeyError for words and labels that there are not."""
        self.code[function] = isa.assemble(items)[0].tolist()

    def file(self) -> bytes:
        """The file.  Raises struct.error for a word that does not fit."""
        words = [w for c in self.code for w in c]
        code = struct.pack(f"<{len(words)}q", *words)
        functions = self.header.get("functions")
        if isinstance(functions, list) and len(functions) == len(self.code):
            for row, words in zip(functions, self.code, strict=True):
                if isinstance(row, dict) and row.get("words") != len(words):
                    row["words"] = len(words)
        header = json.dumps(self.header, separators=(",", ":"), sort_keys=True).encode()
        return sealed(
            HEAD.pack(MAGIC, FORMAT_VERSION, len(header), len(code), len(self.constants)) + header + code, self.constants
        )


def sealed(before: bytes, constants: bytes) -> bytes:
    """With the checksums that belong to it; ``before``: all before the constants."""
    digest = hashlib.sha256(constants).digest()
    before += bytes(-len(before) % ALIGNMENT)
    return before + constants + digest + hashlib.sha256(before + digest).digest()


def resealed(body: bytes) -> bytes:
    """All before the checksums, with those that belong to it, as far as its head says where the constants begin."""
    n_header, n_code = HEAD.unpack(body[: HEAD.size])[2:4] if len(body) >= HEAD.size else (0, 0)
    end = HEAD.size + n_header + n_code
    end += -end % ALIGNMENT
    digest = hashlib.sha256(body[end:]).digest()
    return body + digest + hashlib.sha256(body[:end] + digest).digest()
