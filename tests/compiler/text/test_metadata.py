"""Metadata sections as TVM writes them, and the devices that Relay's planner notes in texts."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import HEADER

CODES = {"i": 0, "u": 1, "f": 2, "b": 1}


def array(x: np.ndarray, code: int | None = None, lanes: int = 1) -> str:
    """An array as TVM writes it."""
    bits = 1 if x.dtype == bool else 8 * x.itemsize
    kind = CODES[x.dtype.kind] if code is None else code
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, x.ndim, kind, bits, lanes)
    return base64.b64encode(head + struct.pack(f"<{x.ndim + 1}q", *x.shape, x.nbytes) + x.tobytes()).decode()


def metadata(arrays: list[Any], devices: tuple[str, ...] = (), **changes: Any) -> str:
    """The section with constants, virtual devices, and a span."""
    nodes: list[dict[str, Any]] = [{"type_key": ""}, {"type_key": "Map"}, {"type_key": "Span", "attrs": {}}]
    lists: dict[str, list[int]] = {"relay.Constant": [], "VirtualDevice": [], "Span": [2]}
    for k in range(len(arrays)):
        lists["relay.Constant"].append(len(nodes))
        nodes.append({"type_key": "relay.Constant", "attrs": {"_checked_type_": "0", "data": str(k), "span": "0"}})
    for kind in devices:
        lists["VirtualDevice"].append(len(nodes))
        nodes.append({"type_key": "VirtualDevice", "attrs": {"device_type_int": kind, "virtual_device_id": "0"}})
    nodes[1] |= {"keys": list(lists), "data": [len(nodes) + k for k in range(len(lists))]}
    nodes += [{"type_key": "Array", "data": numbers} for numbers in lists.values()]
    written = [array(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in arrays]
    data = {"root": 1, "nodes": nodes, "b64ndarrays": written, "attrs": {"tvm_version": "0.12.0"}, **changes}
    return "\n#[metadata]\n" + json.dumps(data, indent=2)


@pytest.mark.parametrize("x", [
    np.float32([[1, 2, 3], [4, 5, 6]]), np.int64(7), np.array([True, False]), np.uint8([]), np.float16([1.5]), np.float64([[2]]),
])  # fmt: skip
def test_constants(x: Any) -> None:
    section = metadata([np.int8(1), np.asarray(x)])
    mod = relay.parse(HEADER + "def @main() { (meta[relay.Constant][1], meta[relay.Constant][0]) }" + section)
    found = mod["main"].body.fields[0].data.numpy()
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)
    assert relay.structural_equal(relay.parse(mod.astext()), mod)


def test_devices_of_parameters_functions_and_marks() -> None:
    text = """def @main(%a {virtual_device=meta[VirtualDevice][1]}: Tensor[(2), float32], virtual_device=meta[VirtualDevice][0]) {
      let %b = on_device(%a, virtual_device=meta[VirtualDevice][0], constrain_result=True, constrain_body=False);
      device_copy(%b, src_virtual_device=meta[VirtualDevice][0], dst_virtual_device=meta[VirtualDevice][1])
    }"""
    wanted = """def @main(%a: Tensor[(2), float32], virtual_device="cpu") {
      let %b = on_device(%a, device="cpu");
      device_copy(%b, src="cpu", dst="cuda")
    }"""
    assert relay.structural_equal(relay.parse(HEADER + text + metadata([], ("1", "2"))), relay.parse(HEADER + wanted))


ONE = [np.float32(1)]
USE = "meta[relay.Constant][0]"


@pytest.mark.parametrize(("body", "section", "message"), [
    ("meta[Span][0]", metadata(ONE), "the metadata's Span is not read"),
    ("meta[IntImm][0]", metadata(ONE), "the metadata has no IntImm"),
    (USE, metadata(ONE, root=2), "the metadata has no constant 0"),
    (USE, metadata(ONE, root="1"), "there is no node 1"),
    (USE, metadata(ONE, b64ndarrays=[]), "a relay.Constant has an array that is not in b64ndarrays"),
    (USE, metadata(ONE, b64ndarrays=3), "b64ndarrays is no list"),
    (USE, metadata(["%"]), "constant 0 of the metadata: its array is no base64"),
    (USE, metadata(["AAAA"]), "constant 0 of the metadata: its array is cut off"),
    (USE, metadata(["A" * 80]), "constant 0 of the metadata: its array is not as TVM writes it"),
    (USE, metadata([array(np.float32([1]), code=5)]), "unknown dtype type code 5, 32; there are float32"),
    (USE, metadata([array(np.float32([1]), lanes=4)]), "unknown dtype float32x4; there are float32"),
    (USE, metadata([array(np.float32([1]))[:-8] + "AAAAAAA="]), "which are not those of float32 of shape (1,)"),
    ("on_device(1f, virtual_device=meta[VirtualDevice][0])", metadata([], ("14",)), "there is no device of type 14"),
    ("on_device(1f, virtual_device=meta[VirtualDevice][2])", metadata([], ("1",)), "the metadata has no VirtualDevice 2"),
    ("on_device(1f, virtual_device=meta[VirtualDevice][0])", metadata([], ("x",)), "'x' is no number of an array or a device"),
    (USE, "\n#[metadata]\n[1]", "the metadata must be an object with the one key 'relay.Constant', a list of constants"),
])  # fmt: skip
def test_what_cannot_be_read(body: str, section: str, message: str) -> None:
    with pytest.raises(relay.ParseError) as caught:
        relay.parse(HEADER + f"def @main() {{ {body} }}" + section)
    assert message in str(caught.value)
    assert str(caught.value).count("error:") == 1


def test_another_attribute_of_a_parameter() -> None:
    with pytest.raises(relay.ParseError, match="a parameter has no attribute layout"):
        relay.parse(HEADER + 'def @main(%a {layout="NCHW"}: float32) { %a }')
