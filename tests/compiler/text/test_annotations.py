"""``relay.annotation`` and ``relay.device_copy``: marks of a program for the passes."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.lowering.pipeline import lower
from relayvm.compiler.settings.config import Config

X = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)


def module(build) -> relay.IRModule:
    x = relay.var("x", (relay.Any(), 4))
    mod = relay.IRModule.from_expr(relay.Function([x], build(x)))
    assert relay.structural_equal(relay.parse(mod.astext()), mod)
    return mod


def primitives(mod: relay.IRModule) -> list[str]:
    return [name for name, f in relay.transform.FuseOps()(mod).functions.items() if f.is_primitive]


def test_stop_fusion_divides_kernels() -> None:
    stop = relay.annotation.stop_fusion
    assert primitives(module(lambda x: relay.exp(relay.tanh(x)))) == ["fused_tanh_exp"]
    mod = module(lambda x: relay.exp(stop(relay.tanh(x))))
    assert primitives(mod) == ["tanh", "exp"]
    assert primitives(module(lambda x: stop(relay.exp(relay.tanh(stop(stop(x))))))) == ["fused_tanh_exp"]
    reduced = module(lambda x: relay.sum(stop(relay.exp(x)), axis=1) + relay.const(1.0))
    assert primitives(reduced) == ["exp", "fused_sum_add"]
    assert np.allclose(relay.create_executor("debug", mod).evaluate()(X).numpy(), np.exp(np.tanh(X)))


def test_a_mark_within_a_branch_holds() -> None:
    x, b = relay.var("x", (4,)), relay.var("b", (), "bool")
    y = relay.annotation.stop_fusion(relay.tanh(x))
    mod = relay.IRModule.from_expr(relay.Function([x, b], relay.If(b, relay.exp(y), y)))
    assert primitives(mod) == ["exp", "tanh"]


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_every_kernel_alone(target: str) -> None:
    mod = module(lambda x: relay.exp(relay.annotation.stop_fusion(relay.tanh(x))))
    lowered = lower(mod, Config(), target)
    names = {name.partition("_over_")[0] for name, f in lowered.functions.items() if f.is_primitive}
    assert names == {"tanh", "exp"}, "whatever works in place has a kernel of its own"


def test_devices() -> None:
    on_device, copied = relay.annotation.on_device, relay.device_copy
    mod = module(lambda x: relay.exp(copied(on_device(relay.tanh(x), relay.cpu()), relay.cpu(), "sim")))
    assert relay.structural_equal(
        mod, relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 4), float32]) {\n'
        'exp(device_copy(on_device(tanh(%x), device="cpu"), src="cpu", dst="sim")) }'),
    )  # fmt: skip
    assert np.allclose(relay.create_executor("debug", mod).evaluate()(X).numpy(), np.exp(np.tanh(X)))
    devices = {name: f.attrs.get("device") for name, f in lower(mod, Config(), "sim").functions.items() if f.is_primitive}
    assert devices["tanh"] == "cpu" and devices["exp"] is None


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: relay.annotation.on_device(1.0, 3), "on_device: the device must be a str, not the int 3"),
        (lambda: relay.annotation.on_device(1.0, "cpu", constrain_body=False), "constrain_body=False would constrain nothing"),
        (lambda: relay.device_copy(1.0, relay.cpu(), None), "device_copy: the device must be a str, not None"),
        (
            lambda: relay.transform.InferType()(module(lambda x: relay.annotation.stop_fusion(relay.Tuple([x])))),
            "annotation.stop_fusion takes a tensor, not (Tensor[(?, 4), float32],)",
        ),
    ],
)
def test_wrong_annotations(fails, text: str) -> None:
    with pytest.raises(relay.RelayError) as error:
        fails()
    assert text in str(error.value)


def test_other_annotations_say_why() -> None:
    with pytest.raises(AttributeError, match=r"there is no relay\.annotation\.checkpoint: "):
        _ = relay.annotation.checkpoint
