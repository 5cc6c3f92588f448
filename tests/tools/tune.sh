#!/bin/sh
# gloo tune, gloo info --tuning, and tables of choices as the ranks of a job.
# usage: tune.sh GLOO JSON_CHECK
gloo=$1 json=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_TRANSPORT GLOO_ALGORITHM GLOO_TUNING_FILE GLOO_MEASURE

failed() { [ "$1" != 0 ]; }

# ---- info --tuning ------------------------------------------------------------

out=$("$gloo" info --tuning --ranks 8 --transport tcp)
equal $? 0 && has "$out" "
allreduce:0-" && has "$out" "
reduce_scatterv:0-"
result "every collective has its choices"

echo "$out" > "$scratch/choices"
again=$(GLOO_TUNING_FILE=$scratch/choices "$gloo" info --tuning --ranks 8 --transport tcp)
equal "$(echo "$again" | sed 1d)" "$(echo "$out" | sed 1d)"
result "what it prints is a tuning file that says the same"

out=$(GLOO_ALGORITHM="allreduce:0-4k=direct,4k-=ring" "$gloo" info --tuning)
has "$out" "
allreduce:0-4K=direct,4K-=ring
"
result "it shows what the environment changes"

"$gloo" info --tuning --json > "$scratch/json" && "$json" < "$scratch/json" > /dev/null
result "it prints JSON"

has "$out" "
# costs (estimates): shm "
result "it shows the costs of links that choices go by"

out=$("$gloo" run -n 2 -- "$gloo" info --tuning)
equal $? 0 && has "$out" "# 2 ranks on one host, " && has "$out" "
# costs (" && equal "$(echo "$out" | grep -c ^allreduce:)" 1
result "as a job it shows what its ranks choose"
out=$("$gloo" run -n 2 -- "$gloo" info --tuning --transport tcp --json)
equal $? 0 && has "$out" '"costs": "shm ' && echo "$out" | "$json" > /dev/null
result "so it does as JSON"

out=$(GLOO_MEASURE=0 "$gloo" run -n 2 -- "$gloo" info --tuning)
equal $? 0 && has "$out" "
# costs (estimates): "
result "GLOO_MEASURE=0 leaves it at estimates"
out=$(GLOO_MEASURE=yes "$gloo" run -n 2 -- "$gloo" info --tuning 2>&1)
failed $? && has "$out" "GLOO_MEASURE is 'yes'; it may be 0 or 1"
result "another word in GLOO_MEASURE is an error"
# shellcheck disable=SC2016
out=$("$gloo" run -n 3 -- sh -c 'export GLOO_MEASURE=$((RANK != 2)); exec "$0" info --tuning' "$gloo" 2>&1)
failed $? && equal "$(echo "$out" | grep -c 'rank 2 does not measure links, unlike rank 0: GLOO_MEASURE')" 3
result "all ranks say which does not measure"

out=$("$gloo" info --ranks 4 2>&1)
equal $? 2 && has "$out" "belongs to --tuning"
result "--ranks goes with --tuning only"

# ---- tables of choices ----------------------------------------------------------

printf 'allreduce:0-=ring\nbroadcast:0-=rings\n' > "$scratch/wrong"
out=$(GLOO_TUNING_FILE=$scratch/wrong "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "$scratch/wrong, line 2: 'rings' is no algorithm of broadcast; known are: binomial"
result "a mistake in a file is named with file, line and word"

out=$(GLOO_TUNING_FILE=$scratch/absent "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "GLOO_TUNING_FILE: cannot open $scratch/absent: "
result "a file that is not there is an error"

out=$(GLOO_ALGORITHM="allreduce:0-=fast" "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "GLOO_ALGORITHM, line 1: 'fast' is no algorithm of allreduce"
result "a mistake in the variable is named"

# The shell that this is for is yet to come:
# shellcheck disable=SC2016
out=$("$gloo" run -n 3 -- sh -c '[ "$RANK" != 2 ] || export GLOO_ALGORITHM="barrier:0-=all_to_one"
  exec "$0" bench barrier --iterations 1' "$gloo" 2>&1)
failed $? && equal "$(echo "$out" | grep -c 'rank 2 was given choices of algorithms, unlike rank 0')" 3
result "all ranks say which two have different tables"

out=$(GLOO_ALGORITHM="allreduce:0-=ring" "$gloo" run -n 3 -- "$gloo" bench allreduce --sizes 4,64K --iterations 2)
equal $? 0 && equal "$(echo "$out" | grep -c ' yes$')" 2
result "with the same table everywhere calls work"

# ---- tune -------------------------------------------------------------------------

out=$("$gloo" run -n 3 -- "$gloo" tune --time 4 --max 4 --collectives allreduce,barrier --output "$scratch/tuned")
equal $? 0 && has "$out" "# the choice is within 1.25 times the best at " && has "$out" "
barrier " && has "$out" "
allreduce                4"
result "it compares the choice with the best"

grep -q '^allreduce@[a-z]*@ranks=3:0-' "$scratch/tuned" && grep -q '^barrier@' "$scratch/tuned" &&
  ! grep -q '^broadcast' "$scratch/tuned"
result "it writes what is best for these ranks"

GLOO_TUNING_FILE=$scratch/tuned "$gloo" run -n 3 -- "$gloo" bench allreduce --sizes 4K --iterations 2 > /dev/null
result "what it writes can be used"

out=$("$gloo" tune 2>&1)
equal $? 1 && has "$out" "gloo run -n 4 -- gloo tune"
result "one rank alone is told what to do"
out=$("$gloo" tune --collectives allreduce,some 2>&1)
equal $? 2 && has "$out" "'some' is nothing that can be measured"
result "unknown collectives are refused"
out=$("$gloo" tune --memory rom 2>&1)
equal $? 2 && has "$out" "'rom' is none of malloc, gloo_alloc"
result "unknown memory is refused"

finish
