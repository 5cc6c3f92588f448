#!/bin/sh
# The built files use the compiler's protection against memory errors: a canary in functions
# with arrays, checked copies, and relocations that are final and read-only at the start of the
# program.
# usage: hardening.sh WHAT FILE...
# WHAT is a list, with commas, of what this compiler and this system have: stack,
# fortify, relro, now; pie goes for programs among the files.
what=,$1,
shift
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
command -v readelf > /dev/null || { echo "1..0 # SKIP the command readelf is missing"; exit 0; }

# shows FILE PATTERN OPTION...: does readelf's output contain it?
shows() {
  file=$1 pattern=$2
  shift 2
  readelf -W "$@" "$file" > "$scratch/all" 2> /dev/null
  grep -qE "$pattern" "$scratch/all"
}

# check FILE PART TEXT PATTERN OPTION...
check() {
  file=$1 part=$2 text=$3 pattern=$4
  shift 4
  case $what in
    *",$part,"*) ;;
    *)
      skipped "${file##*/} $text" "this compiler or system does not have it"
      return
      ;;
  esac
  shows "$file" "$pattern" "$@"
  result "${file##*/} $text"
}

for built in "$@"; do
  check "$built" stack "has canaries on its stack" '__stack_chk_fail' -s
  check "$built" fortify "has copies that are checked" '__[a-z]*cpy_chk|__[a-z]*printf_chk|__memset_chk' -s
  check "$built" relro "has relocations that become read-only" 'GNU_RELRO' -l
  check "$built" now "has all its symbols when it begins" 'BIND_NOW|FLAGS_1.*NOW' -d
  case $built in
    *.so*) ;;
    *) check "$built" pie "is at an address by chance" 'Type: *DYN' -h ;;
  esac
done

# A file without any of it is detected.
echo 'int plain; int main(void) { return plain; }' > "$scratch/plain.c"
if ${CC:-cc} -O0 -fno-stack-protector -o "$scratch/plain" "$scratch/plain.c" -Wl,-z,norelro -Wl,-z,lazy -no-pie 2> /dev/null; then
  ! shows "$scratch/plain" '__stack_chk_fail' -s && ! shows "$scratch/plain" 'BIND_NOW|FLAGS_1.*NOW' -d &&
    ! shows "$scratch/plain" GNU_RELRO -l
  result "a program without it is told from one with it"
else
  skipped "a program without it is told from one with it" "none can be built here"
fi
finish
