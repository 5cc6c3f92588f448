#!/bin/sh
# gloo tune, gloo info --tuning, and tables of choices as the ranks of a job.
# usage: tune.sh GLOO JSON_CHECK
gloo=$1 json=$2
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
unset GLOO_TRANSPORT GLOO_ALGORITHM GLOO_TUNING_FILE GLOO_MEASURE GLOO_SHARED_BUFFERS

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

if has_linux; then
  out=$(GLOO_SHARED_BUFFERS=1 "$gloo" run -n 2 -- "$gloo" info --tuning --transport shm)
  equal $? 0 && has "$out" ", in shared buffers, " && has "$out" "
reduce:0-128K=binomial,128K-=fused"
  result "GLOO_SHARED_BUFFERS=1 chooses what reaches buffers"
  out=$(GLOO_SHARED_BUFFERS=1 "$gloo" info --tuning --ranks 64 --transport shm)
  equal $? 0 && has "$out" ", in shared buffers, " && has "$out" "=direct"
  result "so it does for ranks that are not there"
else
  skipped "GLOO_SHARED_BUFFERS" "this build has no shared memory"
fi
# shellcheck disable=SC2016
out=$("$gloo" run -n 3 -- sh -c 'export GLOO_SHARED_BUFFERS=$((RANK != 1)); exec "$0" info --tuning' "$gloo" 2>&1)
failed $? && equal "$(echo "$out" | grep -c 'rank 1 does not promise shared buffers, unlike rank 0: GLOO_SHARED_BUFFERS')" 3
result "all ranks say which promises no shared buffers"

out=$("$gloo" info --ranks 4 2>&1)
equal $? 2 && has "$out" "requires --tuning"
result "--ranks goes with --tuning only"

# ---- tables of choices ----------------------------------------------------------

printf 'allreduce:0-=ring\nbroadcast:0-=rings\n' > "$scratch/wrong"
out=$(GLOO_TUNING_FILE=$scratch/wrong "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "$scratch/wrong, line 2: 'rings' is not an algorithm of broadcast; valid: binomial"
result "a mistake in a file is named with file, line and word"

out=$(GLOO_TUNING_FILE=$scratch/absent "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "GLOO_TUNING_FILE: cannot open $scratch/absent: "
result "a file that is not there is an error"

# A pipe without a writer must not block the command.
mkfifo "$scratch/pipe"
for other in "$scratch/pipe" "$scratch" /dev/null; do
  out=$(GLOO_TUNING_FILE=$other timeout 60 "$gloo" info --tuning --ranks 4 2>&1)
  failed $? && has "$out" "GLOO_TUNING_FILE: $other is not a regular file; name one"
  result "$other, which is no regular file, is refused"
done

out=$(GLOO_ALGORITHM="allreduce:0-=fast" "$gloo" run -n 2 -- "$gloo" bench barrier --iterations 1 2>&1)
failed $? && has "$out" "GLOO_ALGORITHM: 'fast' is not an algorithm of allreduce"
result "a mistake in the variable is named"

# An inner shell expands this:
# shellcheck disable=SC2016
out=$("$gloo" run -n 3 -- sh -c '[ "$RANK" != 2 ] || export GLOO_ALGORITHM="barrier:0-=all_to_one"
  exec "$0" bench barrier --iterations 1' "$gloo" 2>&1)
failed $? && equal "$(echo "$out" | grep -c 'rank 2 has choices of algorithms, unlike rank 0')" 3
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

out=$("$gloo" run -n 2 -- "$gloo" tune --report --time 2 --max 4 --collectives scan,alltoallv)
equal $? 0 && has "$out" "| within 1.25 times the best | 2 ranks, auto |
|---|---:|
| scan | " && has "$out" "
| alltoallv | " && has "$out" "
| all | " && has "$out" "
| worst | "
result "it says how good the choices are, of scans and with given counts as well"

# ---- tables of times that are there -------------------------------------------------

cat > "$scratch/times" << 'END'
# Measured by gloo tune: 4 ranks, transport tcp, memory of malloc; rank 0 on
# somewhere, gloo_c 0. For GLOO_TUNING_FILE.
# allreduce 4096: chosen ring; ring 30 us, direct 10 us, one_shot 12.5 us
# allreduce 4: chosen direct; direct 10 us, ring 9 us
# scan 4: chosen linear; linear 5 us
allreduce@tcp@ranks=4:0-=direct
END
sed -e 's/4 ranks, transport tcp/2 ranks, transport shm/' -e '/^# scan/d' -e 's/chosen ring/chosen one_shot/' \
  "$scratch/times" > "$scratch/other"
out=$("$gloo" tune --report "$scratch/times" "$scratch/other")
equal $? 0 && equal "$out" "| within 1.25 times the best | 4 ranks, tcp | 2 ranks, shm |
|---|---:|---:|
| allreduce | 1 of 2 | 2 of 2 |
| scan | 1 of 1 | – |
| all | 2 of 3 (67 %) | 2 of 2 (100 %) |
| worst | 3.00: allreduce at 4K, ring instead of direct | 1.25: allreduce at 4K, one_shot instead of direct |"
result "files that it wrote become one table"

out=$("$gloo" tune --report "$scratch/tuned")
equal $? 0 && has "$out" "| within 1.25 times the best | 3 ranks, auto |" && has "$out" "
| barrier | "
result "what it has just written is such a file"

# The error in a file, a line to add, the line that is named.
wrong() {
  { cat "$scratch/times" && echo "$2"; } > "$scratch/bad"
  out=$("$gloo" tune --report "$scratch/bad" 2>&1)
  equal $? 1 && equal "$out" "gloo tune: $scratch/bad, line 7: $1"
}
wrong "unknown algorithm" "# scan 8: chosen linear; ring 5 us" &&
  wrong "the chosen algorithm is missing" "# scan 8: chosen ring; linear 5 us" &&
  wrong "the chosen algorithm is missing" "# scan 8: linear 5 us" &&
  wrong "a number of bytes is missing" "# scan many: chosen linear; linear 5 us" &&
  wrong "the chosen algorithm has no time" "# scan 8: chosen linear; recursive_doubling 5 us" &&
  wrong "a time is missing" "# scan 8: chosen linear; linear -5 us" &&
  wrong "a time is missing" "# scan 8: chosen linear; linear nan us" &&
  wrong "times are expected" "# scan 8: chosen linear; linear 5 us or so" &&
  wrong "ranks are missing" "# Measured by gloo tune: no ranks" &&
  wrong "transport and memory are missing" "# Measured by gloo tune: 2 ranks, by hand"
result "a line that it did not write is named"

out=$("$gloo" tune --report "$scratch/wrong" 2>&1)
equal $? 1 && has "$out" "the file has no times from gloo tune"
result "a file without times is refused"
out=$("$gloo" tune --report "$scratch/absent" 2>&1)
equal $? 1 && has "$out" "cannot read $scratch/absent"
result "a file that is not there is said"

if command -v bash > /dev/null; then
  printf 'before\n<!-- scripts/choices: begin -->\nold\n<!-- scripts/choices: end -->\nafter\n' > "$scratch/page"
  choices() { bash "$(dirname "$0")/../../scripts/choices" --gloo "$gloo" --dir "$scratch/measured" "$@"; }
  out=$(choices --ranks 2,3 --transports tcp --collectives barrier --time 1 --write-docs "$scratch/page" 2>&1) &&
    has "$out" "2 ranks, tcp: barrier" && has "$out" "3 ranks, tcp: barrier"
  result "scripts/choices measures ranks and transports"
  out=$(cat "$scratch/page")
  has "$out" "before
<!-- scripts/choices: begin -->

| within 1.25 times the best | 2 ranks, tcp | 3 ranks, tcp |" && has "$out" "
<!-- scripts/choices: end -->
after" && equal "$(grep -c old "$scratch/page")" 0
  result "and writes the table into a page"
  again=$(choices --ranks 2,3 --transports tcp --collectives barrier --from) &&
    has "$out" "$again"
  result "once more from what it measured"
fi

out=$("$gloo" tune 2>&1)
equal $? 1 && has "$out" "gloo run -n 4 -- gloo tune"
result "one rank alone is told what to do"
out=$("$gloo" tune --collectives allreduce,some 2>&1)
equal $? 2 && has "$out" "'some' is not a collective that can be measured"
result "unknown collectives are refused"
out=$("$gloo" tune --collectives gatherv 2>&1)
equal $? 2 && has "$out" "'gatherv' is not a collective that can be measured"
result "nor is there anything to measure where there is no choice"
out=$("$gloo" tune --memory rom 2>&1)
equal $? 2 && has "$out" "'rom' is not one of malloc, gloo_alloc"
result "unknown memory is refused"

finish
