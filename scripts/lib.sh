# shellcheck shell=bash
# Shared by scripts/demo, scripts/test and .ci/run: packages and building.
# Sourced by bash; nothing here runs by itself.

say() { printf '%s\n' "$*" >&2; }

die() { # status, text
  local status=$1
  shift
  say "$0: $*"
  exit "$status"
}

compiles() { # compiler: does it work, with the C library's headers?
  command -v "$1" >/dev/null &&
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' |
    "$1" -x c -o /dev/null - 2>/dev/null
}

has_library() { # pkg-config name
  command -v pkg-config >/dev/null && pkg-config --exists "$1"
}

# What a build needs besides the compiler, by names of Debian: all but the last four are
# required. README.md and docs/guide/start.md name them as well. Without dpkg-dev meson installs
# to lib64, where Debian's linker and pkg-config do not look.
build_packages=(dpkg-dev meson ninja-build pkg-config libuv1-dev libssl-dev libhiredis-dev libibverbs-dev
  libjansson-dev)

lacks_package() { # name
  case $1 in
    dpkg-dev) command -v dpkg >/dev/null && ! command -v dpkg-architecture >/dev/null ;;
    meson | pkg-config) ! command -v "$1" >/dev/null ;;
    ninja-build) ! command -v ninja >/dev/null ;;
    libuv1-dev) ! has_library libuv ;;
    libssl-dev) ! has_library openssl ;;
    libhiredis-dev) ! has_library hiredis ;;
    libibverbs-dev) ! has_library libibverbs ;;
    libjansson-dev) ! has_library jansson ;;
    libcmocka-dev) ! has_library cmocka ;;
    redis-tools) ! command -v redis-server >/dev/null && ! command -v redis-check-rdb >/dev/null ;;
  esac
}

# Prints the Debian packages that are missing, out of what building needs and, with
# "tests", what the tests need. One line, empty when nothing is.
missing_packages() { # compiler, ["tests"]
  local missing=() package
  compiles "$1" || missing+=("$1" libc6-dev)
  for package in "${build_packages[@]:0:5}" ${2:+libcmocka-dev}; do
    ! lacks_package "$package" || missing+=("$package")
  done
  echo "${missing[*]}"
}

# Prints what is optional: a build leaves out a part, or tests are skipped. The server is
# started by tests: redis-tools has its program, and is no service that starts by itself.
wished_packages() { # ["tests", options of meson test...]
  local wished=() package
  for package in "${build_packages[@]:5}" ${1:+redis-tools}; do
    ! lacks_package "$package" || wished+=("$package")
  done
  [[ " $* " != *" --suite ibv "* ]] || wished+=("$(wished_packages_ibv | tr '\n' ' ')")
  echo "${wished[*]}"
}

# The virtual machine, and what its tests play with.
wished_packages_ibv() {
  local needed
  for needed in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils \
    ip:iproute2 ibv_rc_pingpong:ibverbs-utils; do
    command -v "${needed%:*}" >/dev/null || echo "${needed#*:}"
  done
  [ -e /etc/libibverbs.d/rxe.driver ] || echo ibverbs-providers
}

# Become root for one command, without ever asking for a password.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

can_be_root() {
  [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# Install Debian packages, or say what has to be installed and leave.
install_packages() { # packages...
  local log how="apt-get update && apt-get install --no-install-recommends $*"
  [ $# -gt 0 ] || return 0
  command -v apt-get >/dev/null ||
    die 2 "these are missing (by their Debian names), please install them: $*"
  can_be_root ||
    die 2 "packages are missing, and this is neither root nor allowed to use sudo. Run as root:
  $how"
  say "installing $*"
  log=$(mktemp)
  if ! as_root apt-get update >"$log" 2>&1 ||
    ! as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 </dev/null
  then
    tail -n 5 "$log" >&2
    rm -f "$log"
    die 2 "packages could not be installed (is there a network?). What is missing:
  $how"
  fi
  rm -f "$log"
}

ensure_packages() { # compiler, ["tests", options of meson test...]
  local missing wished
  missing=$(missing_packages "$@")
  wished=$(wished_packages "${@:2}")
  if [ -n "$missing" ] && ! can_be_root; then
    # shellcheck disable=SC2086  # one word per package
    install_packages $missing $wished
  fi
  if [ -n "$wished" ]; then
    # shellcheck disable=SC2086
    (install_packages $missing $wished) || say "continuing without $wished${2:+; some tests are skipped}"
    missing=$(missing_packages "$@")
  fi
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086  # one word per package
  install_packages $missing
  missing=$(missing_packages "$@")
  [ -z "$missing" ] ||
    die 2 "still missing after installation: $missing (is another version first in PATH?)"
}

# Configure a build directory, or bring it up to date: a package that was not
# there the last time is found now.
configure() { # directory, meson options...
  local dir=$1 log
  shift
  log=$(mktemp)
  if [ -f "$dir/build.ninja" ] &&
    meson setup --reconfigure "$@" "$dir" >"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  # Not there yet, or made by another meson or in another place. What pip
  # installed below it (scripts/compare) may stay.
  [ ! -d "$dir" ] || find "$dir" -mindepth 1 -maxdepth 1 ! -name wheels -exec rm -rf {} +
  if ! meson setup "$@" "$dir" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

build() { # directory, [targets...]
  local log
  log=$(mktemp)
  say "building in $1/"
  if ! ninja -C "$1" "${@:2}" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# Run programs of a log of tests that failed again, when they are five at most, by a
# command that gets their names. Sets testlogs, the logs for scripts/count-tests.
retry_failed() { # log, command...
  local programs
  testlogs=("$1")
  mapfile -t programs < <(scripts/count-tests --failed "$1")
  if [ ${#programs[@]} -eq 0 ] || [ ${#programs[@]} -gt 5 ]; then return; fi
  testlogs=("${1%/*}/first.json")
  mv "$1" "${testlogs[0]}"
  "${@:2}" "${programs[@]}"
  [ ! -f "$1" ] || testlogs+=("$1")
}
