#!/usr/bin/env bash
# Every check and measurement that needs a GPU; --help says more. On the machine with the
# GPU, `python3` is the one that has PyTorch.
set -eu
exec "${PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/run.py" "$@"
