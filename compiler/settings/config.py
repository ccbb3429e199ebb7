"""Configuration keys with their meanings and allowed values."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.op import REGISTRY
from ...ops.core.similar_names import alternatives
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ConfigError

#: The largest copy to the host under ``strict_copies=on``: a kernel's counts, conditions, shape vectors.
STRICT_BYTES = 64
#: The texts of a switch's values.
_SWITCH = {"on": True, "off": False}


def _key(default: Any, doc: str, *allowed: Any, number: str = "") -> Any:
    """A field: ``allowed`` are its values; none for a switch.  ``number``: the placeholder of a number, if a number is
    allowed."""
    return dataclasses.field(default=default, metadata={"doc": doc, "allowed": allowed or (True, False), "number": number})


#: The prefix of keys that force the implementation of an operator: ``impl.nn.conv2d=im2col``.
FORCE = "impl."
_FORCED_KEY = FORCE + "<operator>"
_FORCE_DOC = (
    "compute every call of this operator by the implementation NAME, for all sizes; an error where it cannot compute a call"
)
#: The prefix of keys that leave out a pass: ``pass.simplify=off``.
LEAVE_OUT = "pass."
_LEFT_OUT_KEY = LEAVE_OUT + "<pass>"
_LEFT_OUT_DOC = "leave out this optional pass of the compiler, to find the pass that a wrong result comes from"


@frozen
class Config:
    """A configuration.  ``Config.of`` reads keys and values as users write them.

    ``forced``: operators, each with the name of its only implementation; their keys are ``impl.<operator>``.
    ``left_out``: passes that do not run; their keys are ``pass.<pass>``.
    """

    bulk: bool = _key(
        True,
        "launch kernels asynchronously; start a copy to the host as soon as its value is computed (off: synchronize "
        "after each launch)",
    )
    data_dependence: str = _key(
        "input",
        "the data that a data-dependent shape function reads: of its flagged inputs, or (op) of all inputs of its operator, "
        "or (relay) of the inputs that Relay's last version flags",
        "op",
        "relay",
        "input",
    )
    debug_sync: bool = _key(False, "synchronize after each launch, so that a device error names the instruction that caused it")
    dependent_launch: bool = _key(
        False, "let the GPU start a kernel before the kernel in front of it has ended; cuda only, from sm_90 on"
    )
    expansions: bool = _key(
        True,
        "compute a 1x1 convolution and the depthwise convolution of its result in one kernel, without expanded data; cpu only",
    )
    fuse: bool = _key(True, "fuse operators into one kernel")
    graphs: str = _key(
        "auto",
        "replay repeated regions of launches as CUDA graphs (auto: from their third occurrence on); cuda only",
        *("on", "off", "auto"),
    )
    opt_level: int = _key(
        2,
        "0: required passes only; 1: also constant folding, dead code; 2: also common subexpressions, identities, static forms, "
        "fusion; 3: also scales and shifts per channel folded into weights, which changes rounding",
        *(0, 1, 2, 3),
    )
    place: bool = _key(True, "place small work whose results the host needs on the host, so that transfers are minimal")
    plan: str = _key(
        "on",
        "reuse memory: results over inputs, storages of equal size, arenas (off: a storage for each value; blind: as if no "
        "implementation were chosen yet)",
        *("on", "off", "blind"),
    )
    precision: str = _key(
        "float32",
        "the format of tensors of float32 between kernels (float16, bfloat16: kernels read and write halves, and compute in "
        "float32), or of the factors of products (tf32: rounded to 11 bits, for tensor cores; cuda only, elsewhere as float32)",
        *("float32", "tf32", "float16", "bfloat16"),
    )
    strict_copies: bool | int = _key(
        False,
        f"refuse programs with a copy of more than N bytes (on: {STRICT_BYTES}) to the host that they do not request themselves",
        number="N",
    )

    tune: str = _key(
        "cached",
        "choose implementations by times measured on this machine (cached); budgeted, full: first measure the missing times, "
        "within a time limit or all of them",
        *("off", "cached", "budgeted", "full"),
    )

    weights: str = _key(
        "float32",
        "the format of large constant weights of float32 of matrix products (int8, int4: rounded in blocks of 32 numbers, by up "
        "to 1/510 or 1/30 of the range of a block); cpu only",
        *("float32", "int8", "int4"),
    )

    forced: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def weight_bits(self) -> int | None:
        """The bits of a number of rounded weights; None: weights are not rounded."""
        return None if self.weights == "float32" else int(self.weights.removeprefix("int"))

    @property
    def most_copied_bytes(self) -> int | None:
        """The largest allowed copy to the host in bytes; None: unlimited."""
        if isinstance(self.strict_copies, bool):
            return STRICT_BYTES if self.strict_copies else None
        return self.strict_copies

    @staticmethod
    def of(**values: Any) -> Config:
        """The configuration with these keys set; strings such as ``"on"`` and ``"2"`` are read as their values.

        Raises ConfigError, which names the alternatives, for an unknown key or a value that is not allowed.
        """
        known = {f.name: f for f in _fields()}
        forced = {key.removeprefix(FORCE): value for key, value in values.items() if key.startswith(FORCE)}
        left_out = tuple(sorted(_left_out(key, value) for key, value in values.items() if key.startswith(LEAVE_OUT)))
        values = {key: value for key, value in values.items() if not key.startswith((FORCE, LEAVE_OUT))}
        for key in values:
            if key not in known:
                raise ConfigError(
                    f"there is no configuration key {key!r}",
                    help=alternatives(key, [*known, _FORCED_KEY, _LEFT_OUT_KEY]),
                    code=codes.Config.KEY,
                )
        read = {key: _read(known[key], value) for key, value in values.items()}
        implementations = tuple(sorted((op, _implementation(op, name)) for op, name in forced.items()))
        return Config(**read, forced=implementations, left_out=left_out)

    def texts(self) -> dict[str, str]:
        """Every key with its value as text; ``Config.of`` reads it back."""
        named = {FORCE + op: name for op, name in self.forced} | {LEAVE_OUT + name: _text(False) for name in self.left_out}
        return {f.name: _text(getattr(self, f.name)) for f in _fields()} | named


def describe() -> list[tuple[str, str, tuple[str, ...], str]]:
    """``(key, default, allowed values, meaning)`` of every key, as text."""
    keys = [(f.name, _text(f.default), _valid(f), f.metadata["doc"]) for f in _fields()]
    forced = (_FORCED_KEY, "chosen", ("NAME",), _FORCE_DOC)
    return [*keys, forced, (_LEFT_OUT_KEY, _text(True), (_text(False),), _LEFT_OUT_DOC)]


def _fields() -> list[dataclasses.Field[Any]]:
    """The fields that are keys of their own."""
    return [f for f in dataclasses.fields(Config) if f.metadata]


def _left_out(key: str, value: Any) -> str:
    """The pass that a key ``pass.<pass>`` leaves out; the pipeline knows the names.  Raises ConfigError for a value but off."""
    if value is not False and value != _text(False):
        raise ConfigError(f"configuration key {key!r} cannot be {value!r}", help=f"valid: {_text(False)}")
    return key.removeprefix(LEAVE_OUT)


def _implementation(op: str, name: Any) -> str:
    """The value of ``impl.<op>``.  Raises ConfigError for an unknown operator or implementation."""
    several = {name: o.implementations for name, o in REGISTRY.items() if len(o.implementations) > 1}
    key = FORCE + op
    if op not in REGISTRY:
        raise ConfigError(f"configuration key {key!r}: there is no operator {op!r}", help=alternatives(op, sorted(several)))
    valid = REGISTRY[op].implementations
    if name not in valid:
        raise ConfigError(f"configuration key {key!r} cannot be {name!r}", help=alternatives(str(name), list(valid)))
    return str(name)


def _text(value: Any) -> str:
    return {v: k for k, v in _SWITCH.items()}[value] if isinstance(value, bool) else str(value)


def _read(field: dataclasses.Field[Any], value: Any) -> Any:
    allowed = field.metadata["allowed"]
    written = _text(value) if isinstance(value, bool) else value  # for each key with the values on and off, also among others
    for candidate in allowed:
        if (isinstance(written, str) and written == _text(candidate)) or (type(value) is type(candidate) and value == candidate):
            return candidate
    if field.metadata["number"] and type(value) in (int, str) and str(value).isdecimal():
        return int(value)
    help_ = alternatives(str(value), list(_valid(field)))
    raise ConfigError(f"configuration key {field.name!r} cannot be {value!r}", help=help_)


def _valid(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """The texts of a key's allowed values."""
    number = field.metadata["number"]
    return (*map(_text, field.metadata["allowed"]), *([number] if number else []))
