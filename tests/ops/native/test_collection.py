"""The garbage collector is paused during compilation, and only then."""

from __future__ import annotations

import gc

import pytest

from relayvm.ops.native.gc_pause import collection_paused


def test_it_is_put_off_and_comes_back() -> None:
    assert gc.isenabled()
    with pytest.raises(RuntimeError, match="stop"), collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer one holds"
        raise RuntimeError("stop")
    assert gc.isenabled()


def test_two_at_once_in_any_order_leave_it_as_it_was() -> None:
    first, second = collection_paused(), collection_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_who_has_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
