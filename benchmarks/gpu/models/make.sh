#!/usr/bin/env bash
# Exports the models of whole steps again, without weights: GPT-2 124M and Llama 1.1B, and
# small ones like them, or those that are named. Needs PyTorch 2.13, and 10 GB of memory
# for Llama.
set -eu
cd "$(dirname "$0")"
export PYTHONPATH=../../../python:..
[[ $# -gt 0 ]] || set -- gpt2 llama small_gpt2 small_llama
for name in "$@"; do
  python3 -m binade.export "models:make_$name" --batch "models:make_${name}_batch" \
    --loss models:cross_entropy --init rules --output "$name.onnx"
done
