# Functions of build_runtime.sh and build_wheel.sh for shared libraries; sourced, not run.
# shellcheck shell=bash

# Systems have these, or cannot do without their own.
system='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so'

# The names of the libraries that the file $1 asks for.
needed_by() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# Where the folders of library_path, or the loader of this machine, have the library $1.
library_path=()
find_library() {
  local folder
  for folder in "${library_path[@]}"; do
    [[ ! -e $folder/$1 ]] || { printf '%s\n' "$folder/$1"; return; }
  done
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null |
    sed -n "s|^\s*$1 (libc6,x86-64.*=> ||p" | head -n 1
}

# Copies into the folder $1 the libraries $2..., and what they need in turn, but for
# the system's. Fails with the name of one that this machine lacks.
copy_libraries() {
  local folder=$1 name from
  local -a libraries=("${@:2}")
  for ((i = 0; i < ${#libraries[@]}; ++i)); do
    name=${libraries[i]}
    [[ $name =~ $system || -e $folder/$name ]] && continue
    from=$(find_library "$name")
    [[ -n $from ]] || fail "this machine has no $name"
    cp -L "$from" "$folder/$name"
    mapfile -t -O "${#libraries[@]}" libraries < <(needed_by "$folder/$name")
  done
}
