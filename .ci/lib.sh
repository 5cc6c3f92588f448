# shellcheck shell=bash
# Stages of .ci/quick and .ci/run: test suites, single checks, their counts, times
# and failures. Sourced by bash in the project's folder; defines functions only.

passed=0 failed=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
touch "$logs/failed" "$logs/unsteady" "$logs/stages" "$logs/times"
export TEST_TIMES=$logs/times # scripts/count-tests appends to it

# Packages for building and for every test; a test whose package is missing is skipped.
wanted=(abigail-tools build-essential binutils clang clang-format clang-tidy cppcheck
  cmake iproute2 libclang-rt-14-dev libcmocka-dev libhiredis-dev libibverbs-dev
  libjansson-dev libssl-dev libuv1-dev meson mmdebstrap ninja-build pkg-config procps python3 python3-dev python3-venv
  redis-tools shellcheck strace util-linux valgrind)

install_wanted() {
  local missing=() package
  for package in "${wanted[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q 'ok installed' || missing+=("$package")
  done
  install_packages "${missing[@]}"
}

heading() { printf '\n== %s (at %d s)\n' "$1" "$SECONDS"; }

# ---- stages ------------------------------------------------------------------

# Runs scripts/test, or another script with the same last line, and adds up its cases.
suite() { # name, script, options...
  local begun=$SECONDS
  heading "$1: ${*:2}"
  bash "${@:2}" </dev/null >"$logs/suite" 2>"$logs/messages"
  add_up "$1" "$begun"
}

add_up() { # name, when it began
  local name=$1 begun=$2 last p f s
  last=$(tail -n 1 "$logs/suite")
  if [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
  else
    p=0 f=1 s=0 last="no count: the script ended early"
  fi
  if [ "$f" -gt 0 ]; then
    tail -n 200 "$logs/messages"
    # "failed: SUITES - PROJECT:TEST: CASE"
    sed -nE "s/^failed: ([^ ]* - [^:]*:)?/$name: /p" "$logs/suite" | grep . >>"$logs/failed" ||
      echo "$name: $(tail -n 1 "$logs/messages")" >>"$logs/failed"
  fi
  sed -nE "s/^unsteady: ([^ ]* - [^:]*:)?/unsteady: $name: /p" "$logs/suite" >>"$logs/unsteady"
  sed '$d' "$logs/suite"
  record "$name" "$begun" "$p" "$f" "$s"
  echo "$name: $last, in $((SECONDS - begun)) s"
  [ "$p" -gt 0 ] # nothing passes where the build fails
}

record() { # name, when it began, passed, failed, skipped
  passed=$((passed + $3)) failed=$((failed + $4))
  printf '%-12s %6d s %7d passed %4d failed %4d skipped\n' "$1" $((SECONDS - $2)) "$3" "$4" "$5" >>"$logs/stages"
}

# Runs a command that must succeed, as one check.
check() { # name, command...
  check_begin "$@"
  check_end "$1"
}

# Runs a check beside the stages that follow, until check_end. With niceness 19 it takes
# the time that they leave; it must not depend on time.
declare -A check_begun check_process
check_begin() { # name, command...
  check_begun[$1]=$SECONDS
  (renice -n 19 $BASHPID >/dev/null; "${@:2}") </dev/null >"$logs/check-$1" 2>&1 &
  check_process[$1]=$!
}

check_end() { # name
  local name=$1 output="$logs/check-$1"
  heading "$name"
  if wait "${check_process[$1]}"; then
    record "$name" "${check_begun[$1]}" 1 0 0
    echo "$name: ok"
  else
    record "$name" "${check_begun[$1]}" 0 1 0
    tail -n 200 "$output"
    echo "$name: FAILED"
    echo "$name: $(grep -m 1 -iE 'error|warning|SC[0-9]{4}' "$output" || tail -n 1 "$output")" >>"$logs/failed"
  fi
}

# Prints the stages, the slowest programs, what failed and then passed by itself, at
# most ten lines of failures, and the sum.
finish() {
  heading stages
  cat "$logs/stages"
  printf '%-12s %6d s\n' "all" "$SECONDS"
  heading "slowest programs"
  sort -rn "$logs/times" | head -n 10
  heading summary
  cut -c 1-160 "$logs/unsteady"
  awk 'NR <= 9 { print substr($0, 1, 160) } { last = substr($0, 1, 160) }
    END { if (NR == 10) print last; if (NR > 10) print "and " NR - 9 " more: see above" }' "$logs/failed"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ]
  exit
}

# ---- what has changed ----------------------------------------------------------

# Sets base, the commit that the change starts from: $CI_BASE, or the commit in .ci/base;
# empty where neither is an ancestor of HEAD. Sets changed, the files that differ
# from it; without a base all files count as changed.
find_changes() {
  base=${CI_BASE:-$(cat .ci/base)}
  if git merge-base --is-ancestor "$base" HEAD 2>/dev/null; then
    changed=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)
  else
    base='' changed=$(git ls-files)
  fi
}

# Returns true if a file whose path matches has changed.
touches() { # extended regular expression
  grep -qE "$1" <<<"$changed"
}

# Prints the C sources to analyse: the changed ones, and those that include a changed file.
affected_sources() {
  printf '%s\n' "$changed" | .ci/affected
}

# ---- checks that need no build ----------------------------------------------

sources() { # suffixes...
  local suffix
  for suffix; do
    find include src tools examples bench tests python -name "*.$suffix" 2>/dev/null
  done | LC_ALL=C sort
}

check_format() { sources c h | xargs clang-format --dry-run -Werror; }

# Files whose first line names a shell, and those read by others.
shell_scripts() {
  git ls-files -z | xargs -0 awk 'FNR == 1 && (/^#!.*(bash|\/sh)/ || FILENAME ~ /\.sh$/) { print FILENAME } { nextfile }'
}

check_shell() { shell_scripts | xargs shellcheck -x; }

# The subjects of the commits since the base: one topic in at most 72 characters.
check_subjects() {
  [ -z "$base" ] || git log --no-merges --format='%h %s' "$base..HEAD" | good_subjects
}

# Reads lines of "commit subject", and prints those that break a rule.
good_subjects() {
  awk '{ subject = substr($0, index($0, " ") + 1) }
    length(subject) > 72 { print $0 " <- error: more than 72 characters"; wrong = 1 }
    subject ~ /;/ { print $0 " <- error: two topics"; wrong = 1 }
    END { exit wrong }'
}

# A test of tests/law that needs no build.
check_law() { # name
  local said
  said=$(PYTHONDONTWRITEBYTECODE=1 python3 "tests/law/$1.py" .) || return 1
  printf '%s\n' "$said"
  grep -q '^ok' <<<"$said" && ! grep -q '^not ok' <<<"$said"
}

# The subject of a message in a file, as git hands it to a hook; comments are no part of it.
check_message() { # file
  grep -v '^#' "$1" | sed '1s/^/message /; q' | good_subjects
}

check_cppcheck() {
  local files
  files=$(affected_sources | grep -E '^(src|tools|examples|python)/')
  [ -z "$files" ] || xargs -a <(printf '%s\n' "$files") \
    cppcheck --quiet --std=c11 --enable=warning,performance,portability \
    --inline-suppr --error-exitcode=1 -j "$(nproc)" -D_POSIX_C_SOURCE=200809L -DGLI_LINUX=1 \
    -Iinclude -Isrc
}

# ---- checks of the first build ----------------------------------------------

# Only compiled files have known flags; clang does not know some of gcc's.
check_tidy() {
  affected_sources | grep -v '^tests/' | while read -r file; do
    if grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
  done | xargs -r -P "$(nproc)" -n 4 clang-tidy --quiet -p build \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unknown-warning-option
}

# 77: not on this kind of machine.
check_abi() { scripts/abi || [ $? -eq 77 ]; }

# 77: counts of this compiler cannot be compared.
check_instructions() { bench/instructions --build build || [ $? -eq 77 ]; }

# The site builds, without a broken link. It downloads its generator, and fails where it cannot.
check_site() { scripts/site && PYTHONDONTWRITEBYTECODE=1 python3 tests/site/check.py . build-site/html; }

# The checks before each commit; 1 when there is no build to go on with. The options
# are more ones for scripts/test.
quick() { # options...
  check "format" check_format
  check "shellcheck" check_shell
  check "commit subjects" check_subjects
  check "cppcheck" check_cppcheck
  suite gcc scripts/test --cc=gcc --werror --retry --without=consumers "$@" || return
  check "clang-tidy" check_tidy
}
