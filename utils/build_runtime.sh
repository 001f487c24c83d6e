#!/usr/bin/env bash
# Copies all files that another machine needs to run bundles to a folder: neither a
# compiler nor Python nor LLVM.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=utils/libraries.sh
source "$root/utils/libraries.sh"
build=${BINADE_BUILD:-$root/build/release}

usage() {
  cat <<'END'
usage: utils/build_runtime.sh [--with onednn] OUT

Collects the files that run bundles on another machine in the folder OUT, which must
not exist yet. Copy the folder as it is.
  bin/binade-run           trains bundles, on the CPU or a CUDA device
  lib/libbinade_runtime.so the same as a library for C and languages that call C
                           (headers: include/binade)
  lib/                     shared libraries that a minimal system lacks
  NEEDS.txt                requirements of the other machine

  --with onednn  include oneDNN (40 MB), which computes the matmuls of bundles for the
                 CPU; without it Binade's own kernels do. Bundles for CUDA do not use it

Example: utils/build_runtime.sh --with onednn runtime

Environment:
  BINADE_BUILD=DIR  build directory (default: build/release); binade-run and
                    binade_runtime are built there first

Exit codes: 0 for success, 1 if something is missing, 2 for a wrong command line.
END
}

fail() { printf 'build_runtime: error: %s\n' "$1" >&2; exit "${2:-1}"; }

out= libraries=()
while (($#)); do
  case $1 in
  --with)
    [[ ${2:-} == onednn ]] || fail "--with takes 'onednn', got '${2:-}'" 2
    libraries+=(libdnnl.so.2) && shift ;;
  -h | --help) usage; exit 0 ;;
  -*) fail "unknown option $1; --help lists what there is" 2 ;;
  *) [[ -z $out ]] || fail "one folder is expected, got '$out' and '$1'" 2
    out=$1 ;;
  esac
  shift
done
[[ -n $out ]] || { usage >&2; fail "a folder is expected" 2; }
[[ ! -e $out ]] || fail "$out exists; name a folder that does not, or remove it"
[[ -f $build/build.ninja ]] ||
  fail "nothing is configured in $build: cmake --preset release, or set BINADE_BUILD"
for program in cmake ninja readelf ldd; do
  command -v "$program" >/dev/null || fail "$program is not installed: utils/setup.sh"
done

# The newest version of symbols $1_* that the files $2... ask for.
newest() {
  readelf -W --version-info "${@:2}" 2>/dev/null |
    grep -oE "Name: $1_[0-9.]+" | grep -oE '[0-9.]+$' | sort -uV | tail -n 1
}

ninja -C "$build" binade-run binade_runtime >&2
made=$(mktemp -d "$(dirname "$out")/.runtime.XXXXXX")
trap 'rm -rf "$made"' EXIT
cmake --install "$build" --component runtime --prefix "$made" --strip >/dev/null
mkdir -p "$made/include"
cp "$root/include/binade/Runtime/binade.h" "$made/include/"

# libgomp's threads run kernels where there is one; muParser may need it, too.
libraries+=(libgomp.so.1)
for file in "$made"/bin/* "$made"/lib/*.so.?; do
  mapfile -t -O "${#libraries[@]}" libraries < <(needed_by "$file")
done
copy_libraries "$made/lib" "${libraries[@]}"

mapfile -t files < <(find "$made" -type f \( -name '*.so*' -o -path '*/bin/*' \))
for file in "${files[@]}"; do
  needed_by "$file" | grep -E 'LLVM|MLIR|python' &&
    fail "$(basename "$file") needs the library above: the runtime must not"
done
cuda=$(sed -n 's/.*kOldestCuda = \([0-9]*\);.*/\1/p' "$root/lib/Runtime/Cuda/Driver.h")
cat >"$made/NEEDS.txt" <<END
Binade's runtime $("$made/bin/binade-run" --version | sed -n 's/^binade //p'): bin/binade-run --help
Copy this folder to any place. The machine needs
  processor   x86-64 with AVX2 and FMA (x86-64-v3)
  glibc       $(newest GLIBC "${files[@]}") or newer
  libstdc++   with GLIBCXX_$(newest GLIBCXX "${files[@]}"), and libgcc_s
and for bundles of --target cuda:...
  driver      NVIDIA's libcuda.so.1 of CUDA $((cuda / 1000)).$((cuda % 1000 / 10)) or newer
  cuBLASLt    libcublasLt.so.13 or .12 where the loader finds it (LD_LIBRARY_PATH);
              without it the bundle's own kernels multiply, slowly
  cuDNN       libcudnn.so.9 or .8 likewise, for convolutions and attention
Nothing of LLVM, Python, or CUDA's compilers is needed.
END
mv "$made" "$out"
trap - EXIT
chmod 755 "$out"
cat "$out/NEEDS.txt"
