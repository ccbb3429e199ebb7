"""Configuration keys and values."""

from __future__ import annotations

import pytest

from relayvm.compiler.settings.config import FORCE, LEAVE_OUT, Config, describe
from relayvm.vm.diagnostics.source import ConfigError


def test_values_as_people_write_them() -> None:
    assert Config.of() == Config(data_dependence="input", fuse=True, opt_level=2)
    assert Config.of(data_dependence="op", fuse="off", opt_level="0") == Config(data_dependence="op", fuse=False, opt_level=0)
    assert Config.of(fuse=True, opt_level=3) == Config(opt_level=3)
    assert Config.of(plan=False, graphs=True) == Config(plan="off", graphs="on")
    assert Config.of(strict_copies="4096") == Config.of(strict_copies=4096) == Config(strict_copies=4096)
    assert [Config.of(strict_copies=v).most_copied_bytes for v in ("off", "on", "0", "7")] == [None, 64, 0, 7]


def test_texts_are_read_back() -> None:
    for config in (
        Config(),
        Config(data_dependence="op", fuse=False, opt_level=1),
        Config(strict_copies=True),
        Config(strict_copies=12),
        Config(left_out=("fuse_ops", "simplify")),
    ):
        assert Config.of(**config.texts()) == config
    assert Config().texts().items() >= {"data_dependence": "input", "fuse": "on", "opt_level": "2"}.items()


def test_every_key_is_described() -> None:
    for key, default, allowed, meaning in describe():
        if key.startswith((FORCE, LEAVE_OUT)):  # one for each operator, and for each pass
            continue
        assert default in allowed and meaning
        for value in ("12" if v == "N" else v for v in allowed):
            assert Config.of(**{key: value}).texts()[key] == value


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"data_dependance": "op"},
            "error: there is no configuration key 'data_dependance'\n"
            f"help: did you mean 'data_dependence'? valid: {', '.join(key for key, *_ in describe())}",
        ),
        ({"fuse": "of"}, "error: configuration key 'fuse' cannot be 'of'\nhelp: did you mean 'off'? valid: on, off"),
        ({"opt_level": 7}, "error: configuration key 'opt_level' cannot be 7\nhelp: valid: 0, 1, 2, 3"),
        ({"opt_level": True}, "error: configuration key 'opt_level' cannot be True\nhelp: valid: 0, 1, 2, 3"),
        (
            {"strict_copies": "-1"},
            "error: configuration key 'strict_copies' cannot be '-1'\nhelp: valid: on, off, N",
        ),
        ({"strict_copies": 1.5}, "error: configuration key 'strict_copies' cannot be 1.5\nhelp: valid: on, off, N"),
        ({"fuse": 1}, "error: configuration key 'fuse' cannot be 1\nhelp: valid: on, off"),
    ],
)
def test_mistakes(values: dict, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.of(**values)
    assert str(caught.value) == text
