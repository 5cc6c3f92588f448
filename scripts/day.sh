# shellcheck shell=bash
# Shared by scripts/gpu-day and scripts/rdma-day: a report in Markdown, with a table for
# each section, and a limit of time. Sourced by bash; nothing here runs by itself.
#
# The verdict of a line is ok, not (as expected), or - where every answer is right, or
# where the step was left out.

begin_report() { # file, title, seconds for all steps
  report=$1 limit=$3 good=0 bad=0 others=0 step=''
  SECONDS=0
  scratch=$(mktemp -d) || exit 2
  said=$scratch/said # output of the last command
  : >"$said"
  printf '# %s\n\n%s, at most %d seconds. "Expected" is what gloo_c needs or was designed for.\n' \
    "$2" "$(date -u '+%Y-%m-%d %H:%M UTC')" "$limit" | hide_secrets >"$report" || exit 2
  trap 'finish "an error"' EXIT
  trap 'finish interrupted' INT TERM HUP
}

hide_secrets() { # of the environment
  local name text
  text=$(cat)
  for name in GLOO_JOB_SECRET GLOO_STORE GLOO_REDIS_PASSWORD; do
    [ -z "${!name:-}" ] || text=${text//"${!name}"/"($name)"}
  done
  printf '%s\n' "$text"
}

section() { # title
  step=$1
  printf '\n## %s\n\n| | what | expected | seen |\n|---|---|---|---|\n' "$1" >>"$report"
  echo "== $1" >&2
}

line() { # verdict, what, expected, seen
  local verdict=$1 cells=() cell
  case $verdict in
    ok) good=$((good + 1)) ;;
    not) bad=$((bad + 1)) verdict='**not ok**' ;;
    *) others=$((others + 1)) ;;
  esac
  for cell in "${@:2}"; do
    cell=$(tr -d '\r`' <<<"$cell" | tr '\n' ' ' | sed 's/ *$//; s/|/\\|/g' | hide_secrets)
    cells+=(" | $cell")
  done
  printf '| %s%s |\n' "$verdict" "$(printf '%s' "${cells[@]}")" >>"$report"
  printf '%s%s\n' "$verdict" "$(printf '%s' "${cells[@]}")" >&2
}

keep() { # title: of the output in $said, which the report has at its end
  { printf '== %s\n' "$1" && cat "$said" && echo; } >>"$scratch/details"
}

seconds_left() { echo $((limit > SECONDS ? limit - SECONDS : 0)); }

# Returns true if a step of SECONDS may begin; otherwise its line says why not.
may_begin() { # seconds, what, expected
  [ "$(seconds_left)" -lt "$1" ] || return 0
  line - "$2" "$3" "left out: only $(seconds_left) of $limit seconds are left"
  return 1
}

finish() { # why it ends early, or nothing
  trap - EXIT
  [ -z "$1" ] || printf '\nEnded early, in "%s": %s.\n' "$step" "$1" >>"$report"
  printf '\n## Result\n\n%d as expected, %d not, %d without a verdict; %d seconds.\n' "$good" "$bad" "$others" $SECONDS >>"$report"
  if [ -s "$scratch/details" ]; then
    {
      printf '\n## Details\n\n```text\n'
      hide_secrets <"$scratch/details"
      printf '```\n'
    } >>"$report"
  fi
  rm -rf "$scratch"
  echo "$good as expected, $bad not, $others without a verdict: see $report" >&2
  [ "$bad" -eq 0 ] && [ -z "$1" ]
  exit
}
