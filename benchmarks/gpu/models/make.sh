#!/usr/bin/env bash
# Exports the models of whole steps again: GPT-2 124M and Llama 1.1B, without weights.
# Needs PyTorch 2.13, and 10 GB of memory for the second.
set -eu
cd "$(dirname "$0")"
export PYTHONPATH=../../../python:..
for name in gpt2 llama; do
  python3 -m binade.export "models:make_$name" --batch "models:make_${name}_batch" \
    --loss models:cross_entropy --init rules --output "$name.onnx"
done
