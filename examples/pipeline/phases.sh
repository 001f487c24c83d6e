#!/usr/bin/env bash
# Writes what each phase of the compiler leaves of MODEL, a classifier with an output
# `prediction`, into the working directory. Edit a step, or take one out, and run it again.
set -euo pipefail
model=$1

binade-translate --import-onnx "$model" --loss 'cross_entropy(prediction, labels)' \
  -o 1-import.mlir
binade-opt 1-import.mlir --binade-autodiff-pipeline -o 2-autodiff.mlir
binade-opt 2-autodiff.mlir --binade-optimizer-pipeline='optimizer=adamw settings=lr=0.01' \
  -o 3-optimizer.mlir
binade-opt 3-optimizer.mlir --binade-assign-pipeline=policy=bf16-amp -o 4-assign.mlir
binade-opt 4-assign.mlir --binade-materialize-pipeline -o 5-materialize.mlir
binade-opt 5-materialize.mlir --binade-programs-pipeline=batches=4 -o 6-programs.mlir
binade-opt 6-programs.mlir --binade-kernels-pipeline -o 7-kernels.mlir
binade-opt 7-kernels.mlir --binade-conversion-pipeline -o 8-conversion.mlir
binade-translate 7-kernels.mlir --kernels-to-object --level=x86-64-v3 -o 9-target.so

count() { grep -cE "$1" "$2" || true; }
for file in [1-8]-*.mlir; do
  echo "$file: $(count 'func\.func' "$file") functions," \
    "$(count 'binade\.cast ' "$file") casts, $(count 'binade\.launch ' "$file") launches"
done
echo "9-target.so: $(wc -c <9-target.so) bytes"
