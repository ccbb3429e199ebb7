"""The context in which users apply passes: the optimisation level, disabled and required passes, instruments.

with relay.transform.PassContext(opt_level=3, disabled_pass=["FuseOps"]):
    mod = relay.transform.Sequential([...])(mod)
    exe = relay.compile(mod)          # with opt_level=3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics.argument_errors import a_count, a_mapping, a_sequence, a_text

if TYPE_CHECKING:
    from ..ir.expr import IRModule


@frozen
class PassInfo:
    """The facts of a pass: the least optimisation level, the name, the names of the passes that it requires."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()


class PassInstrument:
    """An instrument: methods that a PassContext calls.  Any object with some of these methods is an instrument as well."""

    def enter_pass_ctx(self) -> None:
        """Run at the beginning of the context."""

    def exit_pass_ctx(self) -> None:
        """Run at the end of the context."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass is applied to the module."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Run before a pass, with the module that it gets."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Run after a pass, with its result."""


class PassContext:
    """A context of passes.  In a ``with`` statement it is the current context of its thread or task.

    ``opt_level``: the level of ``Sequential``, and the default of ``relay.compile``.  ``required_pass``: names of passes that run
    at any level.  ``disabled_pass``: names of passes that ``Sequential`` does not run.  ``config``: values for passes of users;
    the compiler's own passes do not read them.
    """

    def __init__(
        self, opt_level: int = 2, required_pass: Sequence[str] | None = None, disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None, config: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.opt_level = a_count(opt_level, "PassContext: the opt_level")
        self.required_pass = pass_names(required_pass, "PassContext: required_pass")
        self.disabled_pass = pass_names(disabled_pass, "PassContext: disabled_pass")
        self.instruments = a_sequence(instruments or (), "PassContext: the instruments")
        self.config = a_mapping(config, "PassContext: the config")

    @staticmethod
    def current() -> PassContext:
        """The innermost context; a new one with the defaults outside of every context."""
        entered = _ENTERED.get()
        return entered[-1] if entered else PassContext()

    def __enter__(self) -> PassContext:
        entered = []
        try:
            for instrument in self.instruments:
                _call(instrument, "enter_pass_ctx")
                entered.append(instrument)
        except BaseException:
            _exit(entered)
            raise
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            _exit(self.instruments)
        finally:
            _ENTERED.set(_ENTERED.get()[:-1])

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Replace the instruments: those before exit, the new ones enter."""
        _exit(self.instruments)
        self.instruments = a_sequence(instruments or (), "PassContext: the instruments")
        for instrument in self.instruments:
            _call(instrument, "enter_pass_ctx")

    def is_enabled(self, info: PassInfo) -> bool:
        """Whether ``Sequential`` runs a pass: not disabled, and required or within the level."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or info.opt_level <= self.opt_level

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass is required, or every instrument agrees; in that case tell the instruments that it runs."""
        if info.name not in self.required_pass:
            # all are asked: an instrument may count
            answers = [_call(instrument, "should_run", mod, info) for instrument in self.instruments]
            if any(answer is not None and not answer for answer in answers):
                return False
        for instrument in self.instruments:
            _call(instrument, "run_before_pass", mod, info)
        return True

    def has_run(self, mod: IRModule, info: PassInfo) -> None:
        """Tell the instruments that the pass has run, with its result."""
        for instrument in self.instruments:
            _call(instrument, "run_after_pass", mod, info)


_ENTERED: ContextVar[tuple[PassContext, ...]] = ContextVar("relayvm_pass_contexts", default=())


def context_options() -> dict[str, Any]:
    """The configuration keys that the current context sets for ``relay.compile``; none outside of every context."""
    entered = _ENTERED.get()
    return {"opt_level": min(entered[-1].opt_level, 3)} if entered else {}


def pass_names(value: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Names of passes.  Raises ArgumentError."""
    return tuple(a_text(name, f"{what}: a name") for name in a_sequence(value if value is not None else (), what))


def _call(instrument: Any, method: str, *args: Any) -> Any:
    function = getattr(instrument, method, None)
    return None if function is None else function(*args)


def _exit(instruments: Iterable[Any]) -> None:
    for instrument in instruments:
        _call(instrument, "exit_pass_ctx")
