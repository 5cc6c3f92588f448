# shellcheck shell=bash
# Shared by .ci/quick and .ci/run: suites, other checks, what they count, and what
# failed. Sourced by bash in the project's folder; nothing here runs by itself.

passed=0 failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
touch "$logs/failed" "$logs/unsteady"

# What building and any test can use; anything left out is a skipped test.
wanted=(abigail-tools build-essential binutils clang clang-format clang-tidy cppcheck
  cmake iproute2 libclang-rt-14-dev libcmocka-dev libhiredis-dev libibverbs-dev
  libssl-dev libuv1-dev meson ninja-build pkg-config procps python3 python3-dev python3-venv redis-tools
  shellcheck strace util-linux valgrind)

install_wanted() {
  local missing=() package
  for package in "${wanted[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q 'ok installed' || missing+=("$package")
  done
  install_packages "${missing[@]}"
}

heading() { printf '\n== %s (at %d s)\n' "$1" "$SECONDS"; }

# Run scripts/test, or another script that ends with such a line, and add up its
# cases.
suite() { # name, script, options...
  local begun=$SECONDS
  heading "$1: ${*:2}"
  bash "${@:2}" </dev/null >"$logs/suite" 2>"$logs/messages"
  add_up "$1" "$begun"
}

# The same beside what follows, until suite_aside_end adds it up. With niceness 19 it
# has what that leaves of the processors, which is little: nothing of it may be due.
declare -A aside_begun aside_process
suite_aside() { # name, niceness, script, options...
  aside_begun[$1]=$SECONDS
  nice -n "$2" bash "${@:3}" </dev/null >"$logs/aside-$1" 2>"$logs/aside-$1-messages" &
  aside_process[$1]=$!
}

suite_aside_end() { # name
  heading "$1, which began earlier"
  wait "${aside_process[$1]}"
  mv "$logs/aside-$1" "$logs/suite"
  mv "$logs/aside-$1-messages" "$logs/messages"
  add_up "$1" "${aside_begun[$1]}"
}

add_up() { # name, when it began
  local name=$1 begun=$2 last p f
  last=$(tail -n 1 "$logs/suite")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]}
  else
    p=0 f=1 last="it broke off"
  fi
  passed=$((passed + p)) failed=$((failed + f))
  if [ "$f" -gt 0 ]; then
    tail -n 200 "$logs/messages"
    # "failed: SUITES - PROJECT:TEST: CASE"
    sed -nE "s/^failed: ([^ ]* - [^:]*:)?/$name: /p" "$logs/suite" | grep . >>"$logs/failed" ||
      echo "$name: $(tail -n 1 "$logs/messages")" >>"$logs/failed"
  fi
  sed -nE "s/^unsteady: ([^ ]* - [^:]*:)?/unsteady: $name: /p" "$logs/suite" >>"$logs/unsteady"
  sed '$d' "$logs/suite"
  echo "$name: $last, in $((SECONDS - begun)) s"
  [ "$p" -gt 0 ] # else it was not built
}

# Run a command that must succeed, as one check.
check() { # name, command...
  local name=$1
  shift
  heading "$name"
  if "$@" </dev/null >"$logs/check" 2>&1; then
    passed=$((passed + 1))
    echo "$name: ok"
  else
    failed=$((failed + 1))
    tail -n 200 "$logs/check"
    echo "$name: FAILED"
    echo "$name: $(grep -m 1 -iE 'error|warning|SC[0-9]{4}' "$logs/check" || tail -n 1 "$logs/check")" >>"$logs/failed"
  fi
}

# What failed, in ten lines at most, and the sum. To be called last.
finish() {
  heading summary
  cut -c 1-160 "$logs/unsteady" # failed, and passed by themselves
  awk 'NR <= 9 { print substr($0, 1, 160) } { last = substr($0, 1, 160) }
    END { if (NR == 10) print last; if (NR > 10) print "and " NR - 9 " more: see above" }' "$logs/failed"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# ---- checks that need no build ----------------------------------------------

sources() { # suffixes...
  local suffix
  for suffix; do
    find include src tools examples bench tests python -name "*.$suffix" 2>/dev/null
  done | LC_ALL=C sort
}

check_format() { sources c h | xargs clang-format --dry-run -Werror; }

check_shell() {
  shellcheck -x scripts/lib.sh scripts/test scripts/demo .ci/lib.sh .ci/quick .ci/run \
    .ci/emulated .ci/debian scripts/choices scripts/compare scripts/fuzz bench/compare/*.sh examples/*.sh &&
    find tests -name '*.sh' -exec shellcheck {} +
}

check_cppcheck() {
  cppcheck --quiet --std=c11 --enable=warning,performance,portability \
    --inline-suppr --error-exitcode=1 -j "$(nproc)" -D_POSIX_C_SOURCE=200809L -DGLI_LINUX=1 \
    -Iinclude -Isrc src tools examples python
}

# ---- checks of the first build ----------------------------------------------

# Only what is compiled here has its flags known; some of gcc's are not clang's.
check_tidy() {
  sources c | grep -v '^tests/' | while read -r file; do
    if grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
  done | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unknown-warning-option
}

# 77: not on this kind of machine.
check_abi() { scripts/abi || [ $? -eq 77 ]; }

# 77: counts of this compiler cannot be compared.
check_instructions() { bench/instructions --build build || [ $? -eq 77 ]; }

# What any change should pass, in a quarter of an hour; 1 when there is no build to go on with.
quick() {
  check "clang-format has nothing to change" check_format
  check "shellcheck" check_shell
  check "cppcheck" check_cppcheck
  suite gcc scripts/test --cc=gcc --werror --retry --without=consumers || return
  check "clang-tidy" check_tidy
}
