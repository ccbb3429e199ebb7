"""``relay.param_dict``: arrays by name as bytes."""

from __future__ import annotations

from . import load_param_dict, save_param_dict

__all__ = ["load_param_dict", "save_param_dict"]
