#!/usr/bin/env bash
# Installs the packages that the build and the tests need on Debian 12: system packages
# by apt, then the pinned Python packages into .venv/. Skips what is installed already.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

packages=(
  # The compiler: LLVM and MLIR, and the tools that build and check it.
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools
  clang-22 lld-22 clang-format-22 libclang-rt-22-dev
  ccache ninja-build cmake git
  # Libraries.
  libprotobuf-dev protobuf-compiler nlohmann-json3-dev libcli11-dev libmuparser-dev
  libdnnl-dev libminizip-dev libboost-dev libgtest-dev libgmock-dev
  # Python.
  python3 python3-venv python3-dev
)

usage() {
  cat <<END
usage: utils/setup.sh [--with torch] [--with peers] [--with wheel] [--with browser]
                      [--with docs] [--dry-run] [--help]

Installs the packages that are missing on Debian 12, and prints what it does:
  by apt   ${packages[*]}
  by pip   python/requirements.txt, into .venv/
Root or sudo is required only if an apt package is missing.

  --with torch   also install python/requirements-torch.txt: PyTorch for the CPU and
                 its ONNX exporter, for binade.export, the benchmarks and the tests
                 that compare with PyTorch
  --with peers   also install python/requirements-peers.txt: optimizers with which a
                 benchmark compares Binade's
  --with wheel   also install python/requirements-wheel.txt, for utils/build_wheel.sh
  --with browser also install chromium, by apt, and python/requirements-browser.txt,
                 for the tests that open the page of a sweep
  --with docs    also install python/requirements-docs.txt, for the documentation as a
                 website: ninja -C build/release binade-site
  --dry-run      only print what is missing; the exit code is 1 if anything is
  --help         print this text and exit
END
}

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

requirements=(requirements)
dry_run=0
while (($#)); do
  case $1 in
  --with)
    case ${2:-} in
    torch | peers | wheel | docs) requirements+=("requirements-$2") ;;
    browser) packages+=(chromium) requirements+=(requirements-browser) ;;
    *)
      usage >&2
      fail "--with takes 'torch', 'peers', 'wheel', 'browser' or 'docs', got '${2:-}'"
      ;;
    esac
    shift
    ;;
  --dry-run) dry_run=1 ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; fail "unknown argument '$1'" ;;
  esac
  shift
done

# --- apt ----------------------------------------------------------------------

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "this system has no apt-get. Use Debian 12, or the \
repository's Dockerfile, or install by hand what --help lists"

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016 # The braces are dpkg-query's.
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  say "apt: all ${#packages[@]} packages are installed"
elif ((dry_run)); then
  say "apt: missing: ${missing[*]}"
else
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "these packages are missing, and this is neither root nor is there sudo:
  ${missing[*]}
Run as root:
  apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "apt: updating the package lists"
  "${as_root[@]}" apt-get update -qq || say "apt: the update failed; continuing with the present lists"
  unknown=()
  for package in "${missing[@]}"; do
    candidate=$(LC_ALL=C apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
    [[ -n $candidate && $candidate != '(none)' ]] || unknown+=("$package")
  done
  if ((${#unknown[@]})); then
    release=$(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-this system}")
    fail "apt finds no package for: ${unknown[*]}
This is $release. Binade needs LLVM 22.1, which Debian 12 has in its security
archive (suite bookworm-security, component main): see that /etc/apt/sources.list
or a file in /etc/apt/sources.list.d names it. Elsewhere add LLVM's package
repository for Debian, branch 22, as its page says, and run this again."
  fi
  say "apt: installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    fail "apt-get install failed; its messages are above"
fi

# --- Python -------------------------------------------------------------------

# Debian's own python3 first: python3-dev has the headers for that one.
python=/usr/bin/python3
[[ -x $python ]] || python=python3

for name in "${requirements[@]}"; do
  list=$root/python/$name.txt
  stamp=$venv/.installed-$name
  if [[ -x $venv/bin/python ]] && cmp -s "$list" "$stamp"; then
    say "pip: python/$name.txt is installed in .venv"
    continue
  fi
  if ((dry_run)); then
    say "pip: missing: python/$name.txt in .venv"
    missing+=("$name")
    continue
  fi
  if ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "pip: making .venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
  fi
  say "pip: installing python/$name.txt into .venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list" || {
    [[ $name == requirements-torch ]] &&
      say "PyTorch for the CPU comes from PyTorch's own package index: add it with the
environment variable PIP_EXTRA_INDEX_URL. Everything but binade.export, the
benchmarks and the tests that compare with PyTorch works without it."
    fail "pip could not install python/$name.txt"
  }
  cp "$list" "$stamp"
done

((dry_run)) && exit $((${#missing[@]} > 0))

# `.venv/bin/python -m binade.data` works from everywhere.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$root/python" >"$site/binade.pth"
say "done: cmake --preset release && ninja -C build/release"
