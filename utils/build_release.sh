#!/usr/bin/env bash
# Builds the files of a release: the wheel, the runtime archive and their checksums.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
usage: utils/build_release.sh OUT

Builds the files of a release in the folder OUT, which must not exist yet:
  binade-VERSION-....whl                  the wheel, built by utils/build_wheel.sh
  binade-runtime-VERSION-x86_64.tar.gz    the runtime, collected by
                                          utils/build_runtime.sh --with onednn
  SHA256SUMS                              checksums of both, which
                                          'sha256sum --check SHA256SUMS' checks

Example: utils/build_release.sh dist

Environment: the variables of the two scripts. The runtime is taken from
build/release unless BINADE_BUILD names another build directory.
Exit codes: 0 for success, 1 if something is missing, 2 for a wrong command line.
END
}

fail() { printf 'build_release: error: %s\n' "$1" >&2; exit "${2:-1}"; }

case ${1:-} in
-h | --help) usage; exit 0 ;;
'' | -*) usage >&2; fail "one folder is expected, got '${1:-}'" 2 ;;
esac
(($# == 1)) || fail "one folder is expected, got $*" 2
out=$1
[[ ! -e $out ]] || fail "$out exists; name a folder that does not, or remove it"

made=$(mktemp -d "$(dirname "$out")/.release.XXXXXX")
trap 'rm -rf "$made"' EXIT
"$root/utils/build_wheel.sh" "$made"
version=$(cd "$made" && echo binade-*.whl | cut -d - -f 2)
runtime=binade-runtime-$version-x86_64
"$root/utils/build_runtime.sh" --with onednn "$made/$runtime" >/dev/null
cp "$root/LICENSE" "$made/$runtime/"
tar -C "$made" --owner=0 --group=0 --sort=name -czf "$made/$runtime.tar.gz" "$runtime"
rm -r "${made:?}/$runtime"
(cd "$made" && sha256sum -- * >SHA256SUMS)
chmod 755 "$made"
mv "$made" "$out"
trap - EXIT
cat "$out/SHA256SUMS"
