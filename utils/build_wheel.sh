#!/usr/bin/env bash
# Builds a wheel of the Python package that contains its dependencies: the compiler with
# LLVM and LLVM's linker, the runtime and oneDNN.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=utils/libraries.sh
source "$root/utils/libraries.sh"
build=${BINADE_BUILD:-$root/build/wheel}
python=${BINADE_PYTHON:-$root/.venv/bin/python}
# What Debian 12's LLVM was built against.
platform=manylinux_2_36_x86_64

usage() {
  cat <<END
usage: utils/build_wheel.sh OUT

Writes binade-VERSION-cpXY-cpXY-$platform.whl to the folder OUT. The wheel contains:
  binade/             the Python package
  binade/native/bin   binade, binade-interpret, binade-run, and LLVM's linker ld.lld
  binade/native/lib   LLVM, MLIR, oneDNN and the libraries that they need, with their
                      licences
'pip install' installs it on any x86-64 Linux with glibc 2.36 or newer and a processor
with AVX2. The machine needs neither LLVM nor a compiler nor CUDA; if it has CUDA's
ptxas, kernels for GPUs are assembled with it (see 'binade list targets').

Run 'utils/setup.sh --with wheel' first.
Example: utils/build_wheel.sh dist

Environment:
  BINADE_BUILD=DIR   build directory (default: build/wheel); with build/release the
                     sources are not compiled twice, but that build directory is
                     configured for another install prefix
  BINADE_PYTHON=BIN  Python for which the wheel is built (default: .venv/bin/python)

Exit codes: 0 for success, 1 if something is missing, 2 for a wrong command line.
END
}

fail() { printf 'build_wheel: error: %s\n' "$1" >&2; exit "${2:-1}"; }
say() { printf 'build_wheel: %s\n' "$*" >&2; }

out=
while (($#)); do
  case $1 in
  -h | --help) usage; exit 0 ;;
  -*) fail "unknown option $1; --help lists what there is" 2 ;;
  *) [[ -z $out ]] || fail "one folder is expected, got '$out' and '$1'" 2
    out=$1 ;;
  esac
  shift
done
[[ -n $out ]] || { usage >&2; fail "a folder is expected" 2; }
[[ -x $python ]] || fail "there is no $python: utils/setup.sh, or set BINADE_PYTHON"
PATH=$(dirname "$python"):$PATH
for program in cmake ninja readelf patchelf auditwheel; do
  command -v "$program" >/dev/null ||
    fail "$program is not installed: utils/setup.sh --with wheel"
done

mkdir -p "$out"
made=$(mktemp -d "$out/.wheel.XXXXXX")
trap 'rm -rf "$made"' EXIT
say "building, in $build"
"$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$made" \
  --config-settings=build-dir="$build" "$root" >&2
"$python" -m wheel unpack --dest "$made" "$made"/*.whl >/dev/null
rm "$made"/*.whl
package=$(echo "$made"/binade-*)
native=$package/binade/native

say "adding LLVM, oneDNN and what they need"
llvm=$(sed -n 's|^BINADE_LLD:FILEPATH=\(.*\)/bin/ld.lld$|\1|p' "$build/CMakeCache.txt")
[[ -n $llvm ]] || fail "$build/CMakeCache.txt does not say where LLVM is"
library_path=("$llvm/lib")
cp -L "$llvm/bin/ld.lld" "$native/bin/ld.lld"
mkdir -p "$native/lib"
needed=(libdnnl.so.2 libgomp.so.1) # Opened when a program runs.
for file in "$package"/binade/_core*.so "$native"/bin/*; do
  mapfile -t -O "${#needed[@]}" needed < <(needed_by "$file")
done
copy_libraries "$native/lib" "${needed[@]}"
# An RPATH, unlike a RUNPATH, leads to what libraries need in turn.
patchelf --force-rpath --set-rpath '$ORIGIN/native/lib' "$package"/binade/_core*.so
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$native"/bin/* "$native"/lib/*

# The licence of each, as Debian's packages have them.
licences=$(echo "$package"/*.dist-info/licenses)
for file in "$llvm/bin/ld.lld" "$native"/lib/*; do
  [[ $file != "$native"/* ]] || file=$(find_library "$(basename "$file")")
  file=$(realpath "$file")
  owner=$(dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}") ||
    fail "no package has $file, whose licence has to be in the wheel"
  owner=${owner%%:*}
  cp "/usr/share/doc/$owner/copyright" "$licences/$owner.txt"
done
grep -rhoE '/usr/share/common-licenses/[A-Z][A-Za-z0-9.-]*[A-Za-z0-9]' "$licences" |
  sort -u | while read -r file; do cp -L "$file" "$licences/"; done

say "packing and checking"
sed -i "s/-linux_x86_64$/-$platform/" "$package"/*.dist-info/WHEEL
"$python" -m wheel pack --dest-dir "$made" "$package" >/dev/null
name=$(basename "$made"/*.whl)
says=$(auditwheel show "$made/$name")
grep -q "following platform tag: \"$platform\"" <<<"${says//$'\n'/ }" ||
  fail "auditwheel finds that it is not for $platform: $says"
mv "$made/$name" "$out/$name"
say "$(du -h "$out/$name" | cut -f1) in $out/$name"
