"""A fingerprint that is not found: each ingredient that differs is named, and no other."""

from __future__ import annotations

import importlib.metadata

import pytest

from relayvm.ops.native.cache.cache_key import CacheKey
from relayvm.ops.native.tuning.fingerprint import TUNING, explain_miss, fingerprint, host_fields, library_fields, nearest
from relayvm.ops.native.tuning.tuning_records import FORMAT_FIELD

#: Every ingredient of a record, with the value of another machine, version or operator.
OTHERS = {
    "relayvm": "0.0.9",
    "module": "0123456789abcdef",
    "operator": "nn.dense",
    "attributes": '{"axis":1}',
    "implementations": "blas loops",
    "bucket": "(16, 256)",
    "dtypes": "float64 float64",
    "threads": "64",
    "device": "cuda",
    "processor": "i486",
    "features": "avx,sse2",
    "llvmlite": "0.40",
    "numpy": "1.26",
    "blas": "scipy 1.10",
    "card": "an older GPU",
    "architecture": "sm_70",
    "driver": "12.0",
    "cuda": "NVRTC 12.0",
}
ABOUT = {
    "module": "f" * 16, "operator": "sort", "attributes": "{}", "implementations": "radix merge", "bucket": "(16, 16)",
    "dtypes": "float32 float32", "threads": "2", "device": "cpu", "card": "a GPU", "architecture": "sm_90", "driver": "13.0",
    "cuda": "NVRTC 13.0",
}  # fmt: skip


def wanted() -> CacheKey:
    return fingerprint(TUNING, ABOUT, {**host_fields(), **library_fields(["sgemm", "dgemm"])})


def with_field(key: CacheKey, name: str, value: str) -> CacheKey:
    assert name in dict(key.fields)
    return CacheKey(tuple((field, value if field == name else old) for field, old in key.fields))


def test_the_ingredients_in_order() -> None:
    assert [name for name, _ in wanted().fields][:3] == ["kind", FORMAT_FIELD, "relayvm"]
    assert {name for name, _ in wanted().fields} == {"kind", FORMAT_FIELD, *OTHERS}


@pytest.mark.parametrize("name", [FORMAT_FIELD, *OTHERS])
def test_the_one_ingredient_that_differs_is_named(name: str) -> None:
    other = OTHERS.get(name, "99")
    found = with_field(wanted(), name, other)
    assert found.id != wanted().id
    first, *lines = explain_miss(wanted(), [found]).split("\n")
    assert first == f"the nearest tuning record differs in {name}:"
    (line,) = lines
    assert line.startswith(f"  {name}: ") and line.endswith(" was found")
    if name != "features":  # of which only the parts that differ are shown
        assert line == f"  {name}: {dict(wanted().fields)[name]} is wanted, {other} was found"


def test_of_long_lists_the_parts_that_differ_are_shown() -> None:
    features = dict(wanted().fields)["features"]
    less = with_field(wanted(), "features", features.replace(",avx2,", ",avx1024,"))
    if less != wanted():
        assert explain_miss(wanted(), [less]).endswith("\n  features: avx2 is wanted, avx1024 was found")
    more = with_field(wanted(), "features", features + ",new")
    assert explain_miss(wanted(), [more]).endswith("\n  features: (nothing more) is wanted, new was found")


def test_the_nearest_record_is_named() -> None:
    far = with_field(with_field(wanted(), "driver", "1"), "cuda", "1")
    near = with_field(wanted(), "numpy", "1")
    foreign = CacheKey.of("cubin", dict(wanted().fields[1:]))
    assert nearest(wanted(), [far, near, foreign]) == near
    assert explain_miss(wanted(), [far, near, foreign]).startswith("the nearest tuning record differs in numpy:\n")
    assert explain_miss(wanted(), [far]).startswith("the nearest tuning record differs in driver, cuda:\n")


def test_nothing_is_missing() -> None:
    assert explain_miss(wanted(), []) == "there is no tuning record"
    assert explain_miss(wanted(), [CacheKey.of("cubin", {})]) == "there is no tuning record"
    assert explain_miss(wanted(), [wanted()]) == "the tuning record is there"


def test_only_libraries_that_are_used_count() -> None:
    assert library_fields([]) == {} and library_fields(["sgemm"]) == library_fields(["sgemm", "dgemm"])
    (package, version) = library_fields(["sgemm"])["blas"].split()
    assert importlib.metadata.version(package) == version
