"""The runs of docs/Underflow.md, which benchmarks/experiments makes.

clip-tiny lies outside of the repository, where BINADE_MODELS says.
"""

import sys

import pytest
from support.paths import BUILD, ROOT

pytest.importorskip("onnx")
if not (BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)
sys.path.insert(0, str(ROOT / "benchmarks/experiments"))
import clamp  # noqa: F401
import epsilon  # noqa: F401
import lost  # noqa: F401
import regimes
import underflow  # noqa: F401
import underflow_report  # noqa: F401

needs_models = pytest.mark.skipif(
    not (regimes.MODELS / "clip-tiny/stream.safetensors").exists(),
    reason=f"clip-tiny is absent in {regimes.MODELS}; BINADE_MODELS names its folder",
)
