#!/usr/bin/env bash
# Exports the model again. Needs PyTorch 2.13; the file in this folder was made so.
set -eu
cd "$(dirname "$0")"
export PYTHONPATH=../../python
python3 -m binade.export model:make_model --batch model:make_batch \
  --loss model:cross_entropy --init rules --output resnet.onnx
