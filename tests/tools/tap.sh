# shellcheck shell=sh disable=SC2001
# Included by the shell tests here: results in TAP.
# result TEXT [FILE]: passes if the command before it succeeded, as in
#   [ "$a" = b ]; result "a is b"
# and otherwise prints FILE.
number=0
failures=0
result() {
  status=$?
  number=$((number + 1))
  if [ $status -eq 0 ]; then
    echo "ok $number - $1"
  else
    [ $# -lt 2 ] || sed 's/^/# /' "$2"
    echo "not ok $number - $1"
    failures=$((failures + 1))
  fi
}

# skipped WHAT WHY: the case is not tested here.
skipped() {
  number=$((number + 1))
  echo "ok $number # SKIP $1: $2"
}

# has TEXT PART: does TEXT contain PART? Prints it if not.
has() {
  case $1 in
    *"$2"*) return 0 ;;
  esac
  echo "# no '$2' in:"
  echo "$1" | sed 's/^/# /'
  return 1
}

# equal A B
equal() {
  [ "$1" = "$2" ] && return 0
  echo "# '$1' is not '$2'"
  return 1
}

# wait_until COMMAND...: waits for up to 30 seconds.
wait_until() {
  tries=0
  while ! "$@" > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || return 1
    sleep 0.05
  done
}

# Does this build of $gloo have the features that only Linux has?
# shellcheck disable=SC2154
has_linux() {
  case $("$gloo" info) in *"abstract sockets"*) ;; *) return 1 ;; esac
}

gone() {
  ! kill -0 "$1" 2> /dev/null
}

finish() {
  echo "1..$number"
  [ $failures -eq 0 ]
  exit
}

scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
