#!/usr/bin/env bash
# Makes the artifacts that run.sh needs; --help says more.
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
exec "$root/.venv/bin/python" "$root/benchmarks/gpu/prepare.py" "$@"
