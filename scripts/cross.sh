# shellcheck shell=bash
# Builds for other systems: the targets of cross/, and zig's clang, which has headers and stubs of their
# C libraries; for Windows Debian's mingw-w64. Sourced by bash after scripts/lib.sh, in the project's folder; defines functions only.
# What is downloaded and built once is kept in ~/.cache/gloo_c/cross.

cross_cache=$HOME/.cache/gloo_c/cross

cross_targets() { find cross -name '*-*.ini' -printf '%f\n' | sed 's/\.ini$//' | LC_ALL=C sort; }

cross_constant() { # name
  sed -n "s/^$1 = '\(.*\)'$/\1/p" "cross/$target.ini"
}

# Sets target, and what its file says.
# shellcheck disable=SC2034  # the scripts that call this read them
cross_describe() { # target
  cross_targets | grep -qxF -e "$1" || die 2 "'$1' is not a target; these are: $(cross_targets | paste -sd ' ')"
  target=$1
  triple=$(cross_constant triple) link=$(cross_constant link) openssl=$(cross_constant openssl)
  cpu=$(cross_constant cpu) system=$(cross_constant system)
}

# Returns true if programs for the target run on this machine, once their C library is installed.
cross_runs_here() { [ "$system $cpu" = "linux $(uname -m)" ] && [ "$(uname -s)" = Linux ]; }

cross_is_by_mingw() { [[ $triple = *-mingw32 ]]; }

# The status is 77 where these cannot be downloaded.
cross_install() {
  local package missing=()
  command -v apt-get >/dev/null || die 77 "apt-get is missing: cross builds need Debian or a derivative"
  for package in debian-archive-keyring dpkg-dev make patch perl pkg-config python3-venv xz-utils; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  ! cross_is_by_mingw || command -v "$triple-gcc" >/dev/null || missing+=(gcc-mingw-w64-x86-64)
  (install_packages "${missing[@]}") || exit 77
  cross_install_tools
}

# Waits until no other script holds the lock, and holds it until this one ends or takes another. Programs
# that this one starts hold it, too.
cross_lock() { # name
  exec 9>"$cross_cache/$1.lock"
  flock -n 9 || { say "waiting for another script that uses $cross_cache ($1)" && flock 9; }
}

# Removes versions that nothing has used for a week.
cross_forget() { find "$cross_cache" -maxdepth 1 -name "$1-????????????" -mtime +7 -exec rm -rf {} +; } # name

# The virtual environment has the versions of scripts/cross.txt, and is made again when they change. It is the
# same whether PATH begins with it or not.
cross_install_tools() {
  local key venv
  key=$({ cat scripts/cross.txt && python3 -c 'import sys; print(sys.version, sys.base_prefix)'; } | sha256sum)
  venv=$cross_cache/tools-${key:0:12}
  mkdir -p "$cross_cache" || exit 1
  cross_lock tools
  if [ ! -f "$venv/complete" ]; then
    say "installing compiler and build tools"
    rm -rf "$venv"
    cross_forget tools
    { python3 -m venv "$venv" && "$venv/bin/pip" --disable-pip-version-check install -q -r scripts/cross.txt; } >&2 ||
      die 77 "pip cannot install the tools of scripts/cross.txt (is there a network?)"
    touch "$venv/complete"
  fi
  touch "$venv"
  exec 9>&-
  export PATH=$venv/bin:$PATH
  zig=$(python -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')
}

# Programs named cc, ar and ranlib for the target; `compiler` is what libraries depend on. cc names no
# folders of libraries: clang's are this system's, and meson would take static libraries from them.
cross_write_tools() { # folder
  local name
  mkdir -p "$1" || return
  if cross_is_by_mingw; then
    for name in ar ranlib; do printf '#!/bin/sh\nexec %s "$@"\n' "$triple-$name" >"$1/$name"; done
    printf '#!/bin/sh\nexec %s "$@"\n' "$triple-gcc" >"$1/cc"
    chmod +x "$1/ar" "$1/cc" "$1/ranlib"
    "$triple-gcc" --version | head -n 1 >"$1/compiler"
    return
  fi
  for name in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$name" >"$1/$name"
  done
  {
    printf '#!/bin/sh\ncase " $* " in *" --print-search-dirs "*) exit 0 ;; esac\n'
    printf 'exec "%s" cc -target %s "$@"\n' "$zig" "$triple${link:+ $link}"
  } >"$1/cc"
  chmod +x "$1/ar" "$1/cc" "$1/ranlib"
  echo "$("$zig" version) $triple $link" >"$1/compiler"
}

# Writes what the files of cross/ leave open to TOOLS/paths.ini, and sets cross_files, meson's options.
# shellcheck disable=SC2034  # the scripts that call this read it
cross_write_paths() { # tools, libraries, arguments of the compiler, of the linker: as lists of meson's
  local wrapper=true
  ! cross_runs_here || wrapper=false
  printf '%s\n' "[constants]" "tools = '$1'" "libraries = '$2'" "c_arguments = [${3:-}]" "link_arguments = [${4:-}]" \
    "[properties]" "needs_exe_wrapper = $wrapper" >"$1/paths.ini" || return
  cross_files=("--cross-file=$1/paths.ini" "--cross-file=$PWD/cross/$target.ini" "--cross-file=$PWD/cross/common.ini")
}
