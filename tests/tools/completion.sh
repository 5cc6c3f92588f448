#!/bin/sh
# Completion of the command line in the shells themselves.
# usage: completion.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
case $gloo in /*) ;; *) gloo=$PWD/$gloo ;; esac
cd "$scratch" || exit 99
mkdir empty && : > a_file

for shell in bash zsh fish; do
  "$gloo" completion $shell > gloo.$shell && [ -s gloo.$shell ]
  result "gloo completion $shell"
done
out=$("$gloo" completion tcsh 2>&1)
equal $? 2 && has "$out" "'tcsh' is not one of bash, zsh, fish"
result "an unknown shell is refused"

# completes SHELL LINE WORDS: are the completions of LINE exactly WORDS? "+ WORDS": at least these.
completes() {
  "complete_$1" "$2" > found 2> said
  want=$3
  case $want in
    "+ "*)
      for word in ${want#+ }; do
        grep -qx -e "$word" found || echo "no $word"
      done > missing
      ;;
    *)
      for word in $want; do echo "$word"; done | LC_ALL=C sort > wanted
      LC_ALL=C sort found | diff wanted - > missing
      ;;
  esac
  [ ! -s missing ] && [ ! -s said ]
  status=$?
  cat missing said > messages
  (exit $status)
  result "$1: '$2' has $3" messages
}

# Completes LINE as the shell does, one word a line.
# shellcheck disable=SC2317
complete_bash() {
  bash --norc -c '
    . ./gloo.bash
    read -ra COMP_WORDS <<< "$1"
    [[ $1 == *" " ]] && COMP_WORDS+=("")
    # A readline word ends at "=", too.
    last=${COMP_WORDS[-1]}
    if [[ $last == -*=* ]]; then COMP_WORDS=("${COMP_WORDS[@]:0:${#COMP_WORDS[@]}-1}" "${last%%=*}" = "${last#*=}"); fi
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    $(complete -p gloo | sed "s/.*-F \([^ ]*\).*/\1/") gloo "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    ((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]%/}"' bash "$1"
}
# shellcheck disable=SC2016,SC2317
complete_fish() {
  HOME=$scratch/empty fish -N -c '
    source gloo.fish
    complete -C "$argv[1]" | string replace -r "\t.*" "" | string replace -r "^--[^=]*=" "" | string replace -r "/\$" ""' "$1"
}
# A line that is completed in one way alone, in an editor of lines on a terminal.
# shellcheck disable=SC2317
complete_zsh() {
  HOME=$scratch/empty zsh -f -c '
    zmodload zsh/zpty
    zpty editor zsh -f -i
    tell() { zpty -w editor "$1"; }
    tell "PS1=; unsetopt prompt_sp; autoload -Uz compinit; compinit -u -D; . ./gloo.zsh"
    tell "shown() { print -r -- \"\$BUFFER\" > shown.new; mv shown.new shown; BUFFER=; }; zle -N shown; bindkey \"^T\" shown"
    tell "print ready > ready"
    for i in {1..300}; do [[ -e ready ]] && break; sleep 0.1; done
    rm -f ready shown
    zpty -w -n editor "$1"$'"'\\t'"'
    zpty -w -n editor $'"'\\x14'"'
    for i in {1..300}; do [[ -e shown ]] && break; sleep 0.1; done
    zpty -d editor
    line=$(<shown)
    print -r -- ${${=line}[-1]}' zsh "$1"
  rm -f shown
}

# The options of a command, from its help.
options_of() {
  # shellcheck disable=SC2086 # one or two words
  "$gloo" $1 --help | sed -n 's/^  *\(-., \)*\(--[a-z-]*\).*/\2/p' | tr '\n' ' '
}

for shell in bash fish; do
  if ! command -v $shell > /dev/null; then
    skipped "completion in $shell" "it is not installed"
    continue
  fi
  completes $shell "gloo " "$("$gloo" --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' | tr '\n' ' ') help"
  completes $shell "gloo be" "bench"
  for tool in run bench "bench limits" "bench overlap" "bench start" plan tune doctor trace top metrics store info completion; do
    completes $shell "gloo $tool --" "$(options_of "$tool")"
  done
  completes $shell "gloo bench all" "allgather allgatherv allreduce alltoall alltoallv"
  completes $shell "gloo bench " "+ barrier sendrecv limits overlap start"
  completes $shell "gloo plan boot" "bootstrap"
  completes $shell "gloo plan sendr" ""
  completes $shell "gloo bench allreduce --dtype bf" "bfloat16"
  completes $shell "gloo bench allreduce --dtype=bf" "bfloat16"
  completes $shell "gloo bench allreduce --dtype=" "+ int8 bool float32"
  completes $shell "gloo plan allreduce -a recursive_d" "recursive_doubling"
  completes $shell "gloo bench --time " ""
  completes $shell "gloo tune --output a_f" "a_file"
  completes $shell "gloo trace a_f" "a_file"
  completes $shell "gloo run -n 2 -- gloo bench limits --on" "--only"
  completes $shell "gloo completion " "bash zsh fish"
done
completes bash "gloo run -n 2 a_f" "a_file"
completes bash "gloo run -n 2 -- ls --" ""

if command -v zsh > /dev/null; then
  completes zsh "gloo comp" "completion"
  completes zsh "gloo bench --dt" "--dtype="
  completes zsh "gloo bench allreduce --dtype=bf" "--dtype=bfloat16"
  completes zsh "gloo bench allreduce --dtype bf" "bfloat16"
  completes zsh "gloo bench sendr" "sendrecv"
  completes zsh "gloo bench limits --on" "--only="
  completes zsh "gloo plan allreduce -a recursive_d" "recursive_doubling"
  completes zsh "gloo tune --output a_f" "a_file"
  completes zsh "gloo run -n 2 -- gloo bench limits --on" "--only="
  completes zsh "gloo run --pre" "--prefix"
else
  skipped "completion in zsh" "it is not installed"
fi
finish
