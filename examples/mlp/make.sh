#!/usr/bin/env bash
# Writes mlp.onnx from mlp.txt; needs the Python package onnx.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

rules='{"fc1_weight": {"rule": "uniform", "low": -0.25, "high": 0.25},
        "fc1_bias": {"rule": "zeros"},
        "fc2_weight": {"rule": "uniform", "low": -0.18, "high": 0.18},
        "fc2_bias": {"rule": "zeros"}}'
"${PYTHON:-python3}" ../../test/Import/Inputs/make_onnx.py mlp.txt mlp.onnx \
  'binade.version=1' "binade.init=$rules" \
  'binade.trainable=["fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]'
