#!/usr/bin/env bash
# Exports both models again. Needs PyTorch 2.13; the files in this folder were made so.
set -eu
cd "$(dirname "$0")"
export PYTHONPATH=../../python
python3 -m binade.export model:make_model --batch model:make_batch \
  --loss model:cross_entropy --init rules --output char-gpt.onnx
python3 -m binade.export model:make_mini --batch model:make_mini_batch \
  --loss model:cross_entropy --init rules --output mini.onnx
