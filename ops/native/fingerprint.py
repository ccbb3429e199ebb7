"""Fingerprints: the named ingredients on which what was found out depends, and which of them differ where nothing is found.

A fingerprint is a ``CacheKey``; its ingredients are ordered: this package, then what was looked at, then the machine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from .cache_key import CacheKey, apart, differences
from .records import FORMAT_FIELD, FORMAT_VERSION

#: What a record is about.
TUNING = "tuning"
#: An ingredient that this machine does not have.
NONE = "none"


@functools.cache
def host_fields() -> dict[str, str]:
    """The processor, and the versions of what makes code for it, by name."""
    from .store import toolchain

    found = toolchain()
    on = (feature[1:] for feature in found["features"].split(",") if feature.startswith("+"))
    return {"processor": found["processor"], "features": ",".join(on)} | {
        name: found[name] for name in ("numba", "llvmlite", "numpy")
    }


def library_fields(libraries: Iterable[str]) -> dict[str, str]:
    """The package and version whose BLAS has these functions (see ``libraries``); nothing where there are none."""
    from .libraries import blas

    if not list(libraries):
        return {}
    try:
        package = blas().package
    except ImportError:
        return {"blas": NONE}
    return {"blas": f"{package} {_version(package)}"}


def fingerprint(kind: str, about: Mapping[str, str], machine: Mapping[str, str]) -> CacheKey:
    """The key of what was found out ``about`` something on a ``machine``."""
    return CacheKey.of(kind, {FORMAT_FIELD: str(FORMAT_VERSION), "relayvm": _version("relayvm"), **about, **machine})


@functools.cache
def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def nearest(wanted: CacheKey, found: Iterable[CacheKey]) -> CacheKey | None:
    """The key of the same kind with the fewest other ingredients; None where there is none of that kind."""
    alike = (key for key in found if key.kind == wanted.kind)
    return min(alike, key=lambda key: len(differences(wanted, key)), default=None)


def explain_miss(wanted: CacheKey, found: Iterable[CacheKey]) -> str:
    """Why none of the records ``found`` is that of ``wanted``: what the nearest one differs in, a line for each ingredient."""
    near = nearest(wanted, found)
    if near is None:
        return f"there is no {wanted.kind} record"
    differing = differences(wanted, near)
    if not differing:
        return f"the {wanted.kind} record is there"
    names = ", ".join(name for name, _, _ in differing)
    return "\n".join([f"the nearest {wanted.kind} record differs in {names}:", *(_line(*row) for row in differing)])


def _line(name: str, wanted: str | None, found: str | None) -> str:
    here, there = apart(wanted, found)
    return f"  {name}: {here} is wanted, {there} was found"
