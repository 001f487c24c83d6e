"""Names of the policies that Binade includes."""

from .paths import ROOT

_TEXTS = {
    path.stem: path.read_text()
    for path in sorted((ROOT / "lib/Precision/Policies").glob("*.yaml"))
}
POLICIES = list(_TEXTS)
# GPUs have accumulators of their own, and refuse policies with a model of one.
GPU_POLICIES = [name for name, text in _TEXTS.items() if "accumulate: {" not in text]
# `binade convert` does not multiply operands by constants.
CONVERTED_POLICIES = [
    name for name, text in _TEXTS.items() if "unit_scale: {" not in text
]
