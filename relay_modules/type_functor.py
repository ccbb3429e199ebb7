"""``relay.type_functor``: visitors of types."""

from __future__ import annotations

from . import TypeFunctor, TypeMutator, TypeVisitor

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]
