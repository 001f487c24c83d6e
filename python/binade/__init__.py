"""Binade from Python: compile training steps, export models, prepare data.

``binade.compile`` compiles an ONNX model to a ``TrainStep``, ``binade.load`` loads one
from a bundle; ``binade.convert`` changes the formats of an ONNX model as a policy says.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from binade.programs import use_own_programs
from binade.version import __version__ as __version__

if TYPE_CHECKING:
    from binade.alarms import Alarm
    from binade.compiled_step import TrainStep
    from binade.conversion import convert
    from binade.metrics import Metrics
    from binade.policies import Policy
    from binade.train_step import compile, load

__all__ = ["Alarm", "Metrics", "Policy", "TrainStep", "compile", "convert", "load"]

# Names that need the compiled extension are imported on first use, because exporting
# models and reading runs work without it.
_HOMES = {
    "Alarm": "binade.alarms",
    "Metrics": "binade.metrics",
    "Policy": "binade.policies",
    "TrainStep": "binade.compiled_step",
    "compile": "binade.train_step",
    "convert": "binade.conversion",
    "load": "binade.train_step",
}

use_own_programs()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'binade' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
