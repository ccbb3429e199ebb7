"""Names of results and defaults of parameters: written in a program, kept by passes, files and machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.values.output_names import leaf_outputs

X = np.array([[1, -2]], "float32")
#: Two results and the names of a model; a parameter with the default 3.
PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32], %k: Tensor[(), float32], output_names=["boxes", "a/b:0"], defaults=["00004040"])
  -> (Tensor[(?n, 2), float32], Tensor[(?n, 2), float32]) {
  (multiply(%x, %k), nn.relu(%x))
}
"""
#: As above without names, and with a tuple within the result.
NESTED = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2), float32]NAMES) { ((%x, nn.relu(%x)), negative(%x)) }
"""


@pytest.fixture(scope="module")
def exe() -> relay.Executable:
    return relay.compile(relay.parse(PROGRAM))


def test_names_print_and_parse_back(exe: relay.Executable, tmp_path: Path) -> None:
    module = relay.parse(PROGRAM)
    assert relay.parse(module.astext())["main"].attrs == module["main"].attrs
    assert [name for name, _ in exe.outputs] == ["boxes", "a/b:0"]
    exe.save(tmp_path / "m.rvm")
    again = relay.Executable.load(tmp_path / "m.rvm")
    assert again.outputs == exe.outputs and again.save()[0] == exe.save()[0]
    assert again.functions[0].defaults[0].tolist() == 3


def test_results_by_name(exe: relay.Executable) -> None:
    vm = relay.VirtualMachine(exe)
    boxes, second = vm.run(X, outputs=["boxes", "a/b:0"])
    assert (boxes.numpy().tolist(), second.numpy().tolist()) == ([[3, -6]], [[1, 0]])
    (alone,) = vm["main"](x=X, outputs=("a/b:0",))
    assert alone.numpy().tolist() == [[1, 0]]
    assert vm.run(X, outputs=[]) == ()
    vm.set_input("main", X)
    assert vm.run(outputs=["boxes"])[0].numpy().tolist() == [[3, -6]]
    with pytest.raises(relay.InputError) as caught:
        vm.run(X, outputs=["boxs"])
    assert str(caught.value) == "error: @main has no result 'boxs'; did you mean 'boxes'?\nhelp: its results: boxes, a/b:0"
    with pytest.raises(relay.ArgumentError):
        vm.run(X, outputs="boxes")


def test_a_parameter_may_be_called_outputs_or_self() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%outputs: float32, %self: float32) { subtract(%outputs, %self) }'
    vm = relay.VirtualMachine(relay.compile(relay.parse(text)))
    assert vm.run(outputs=np.float32(3), self=np.float32(1)).numpy() == 2


def test_the_default_of_a_parameter_is_used_where_no_value_is_given(exe: relay.Executable) -> None:
    vm = relay.VirtualMachine(exe)
    for call in (lambda: vm.run(X), lambda: vm.run(x=X), lambda: vm.invoke("main", X)):
        assert call()[0].numpy().tolist() == [[3, -6]]
    for call in (lambda: vm.run(X, np.float32(5)), lambda: vm.run(X, k=np.float32(5)), lambda: vm.run(k=5, x=X)):
        assert call()[0].numpy().tolist() == [[5, -10]]
    with pytest.raises(relay.InputError, match="no value for %x"):
        vm.run(k=np.float32(5))


def test_a_bound_parameter_loses_its_default() -> None:
    exe = relay.compile(relay.parse(PROGRAM), params={"k": np.float32(7)})
    assert [name for name, _ in exe.inputs] == ["x"] and not exe.functions[0].defaults
    assert relay.VirtualMachine(exe).run(X)[0].numpy().tolist() == [[7, -14]]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("", ["result.0.0", "result.0.1", "result.1"]),
        (', output_names=["pair", "last"]', ["pair.0", "pair.1", "last"]),
        (', output_names=["pair", "pair.0"]', ["result.0.0", "result.0.1", "result.1"]),  # two leaves would have one name
    ],
    ids=["none", "two", "ambiguous"],
)
def test_names_of_the_parts_of_tuples(names: str, wanted: list[str]) -> None:
    exe = relay.compile(relay.parse(NESTED.replace("NAMES", names)))
    assert [leaf.name for leaf in leaf_outputs(exe.functions[exe.function_index("main")])] == wanted


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ('output_names=["a", "b"]', "@main: output_names: it has 2 names, the function has 1 result"),
        ('output_names=["a\\n"]', "@main: output_names: its names are printable texts"),
        ("output_names=[1]", "@main: output_names: its names are printable texts"),
        ('defaults=["00"]', "defaults: the default of %x is no Tensor[(2), float32] in hexadecimal"),
        ('defaults=["zz"]', "defaults: the default of %x is no Tensor[(2), float32] in hexadecimal"),
        ('defaults=["", ""]', "defaults: a text for each of the last parameters"),
    ],
)
def test_names_and_defaults_that_do_not_fit(attribute: str, message: str) -> None:
    with pytest.raises(relay.TypeCheckError) as caught:
        relay.compile(relay.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32], {attribute}) {{ nn.relu(%x) }}'))
    assert caught.value.diagnostics[0].message == message and caught.value.code == "type/signature"


def test_two_results_of_one_name() -> None:
    with pytest.raises(relay.TypeCheckError, match="two results have one name"):
        relay.compile(relay.parse(NESTED.replace("NAMES", ', output_names=["a", "a"]')))
