"""Fingerprints of measurements: named ingredients on which a tuning record depends, and the differing ones on a miss.

A fingerprint is a ``CacheKey``.  Its ingredients are ordered: this package, then the measured program, then the machine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from ..cache.cache_key import CacheKey, differences, distinct_parts
from ..cache.installed_version import installed_version
from .tuning_records import FORMAT_FIELD, FORMAT_VERSION

#: The kind of a tuning record.
TUNING = "tuning"
#: The value of an ingredient that this machine does not have.
NONE = "none"


@functools.cache
def host_fields() -> dict[str, str]:
    """The CPU, and the versions of the packages that determine its code, by name."""
    from ..compiled.kernel_store import toolchain
    from ..jit.native_compiler import PACKAGES

    found = toolchain()
    on = (feature[1:] for feature in found["features"].split(",") if feature.startswith("+"))
    return {"processor": found["processor"], "features": ",".join(on)} | {name: found[name] for name in PACKAGES}


def library_fields(libraries: Iterable[str]) -> dict[str, str]:
    """The package and version of the BLAS with these functions (see ``jit.library_calls``); empty without functions."""
    from ..blas.library_calls import blas

    if not list(libraries):
        return {}
    try:
        package = blas().package
    except ImportError:
        return {"blas": NONE}
    return {"blas": f"{package} {installed_version(package)}"}


def fingerprint(kind: str, about: Mapping[str, str], machine: Mapping[str, str]) -> CacheKey:
    """The key of a measurement: ``about`` describes its subject, ``machine`` the machine."""
    return CacheKey.of(kind, {FORMAT_FIELD: str(FORMAT_VERSION), "relayvm": installed_version("relayvm"), **about, **machine})


def nearest(wanted: CacheKey, found: Iterable[CacheKey]) -> CacheKey | None:
    """The key of the same kind with the fewest differing ingredients; None if there is no key of that kind."""
    alike = (key for key in found if key.kind == wanted.kind)
    return min(alike, key=lambda key: len(differences(wanted, key)), default=None)


def explain_miss(wanted: CacheKey, found: Iterable[CacheKey]) -> str:
    """Explain a miss: none of the records ``found`` has the key ``wanted``; the differences to the nearest one, one per line."""
    near = nearest(wanted, found)
    if near is None:
        return f"there is no {wanted.kind} record"
    differing = differences(wanted, near)
    if not differing:
        return f"the {wanted.kind} record is there"
    names = ", ".join(name for name, _, _ in differing)
    return "\n".join([f"the nearest {wanted.kind} record differs in {names}:", *(_line(*row) for row in differing)])


def _line(name: str, wanted: str | None, found: str | None) -> str:
    here, there = distinct_parts(wanted, found)
    return f"  {name}: {here} is wanted, {there} was found"
