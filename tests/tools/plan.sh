#!/bin/sh
# gloo plan: the list, and the pictures and data of every algorithm.
# usage: plan.sh GLOO JSON_CHECK FORMATS
gloo=$1 json=$2 formats=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

"$gloo" plan --list > "$scratch/list"
awk '{ print $1, $2 }' "$scratch/list" > "$scratch/names"
LC_ALL=C sort -k1,1 -k2,2 "$scratch/names" | diff - "$scratch/names" > "$scratch/messages" && [ "$(wc -l < "$scratch/names")" -ge 60 ]
result "gloo plan --list is sorted" "$scratch/messages"
! grep -vE '^[^ ].{14}  [^ ].{22}  [^ ]' "$scratch/list" > "$scratch/messages"
result "its columns are straight" "$scratch/messages"

# every_algorithm OPTION CHECK: does CHECK accept the output for 8 ranks of each?
every_algorithm() {
  : > "$scratch/messages"
  while read -r collective algorithm; do
    if ! "$gloo" plan "$collective" -a "$algorithm" -n 8 -c 64 "$1" > "$scratch/out" 2>&1 ||
      ! "$2" > "$scratch/said" 2>&1; then
      echo "$collective $algorithm"
      head -n 3 "$scratch/out" "$scratch/said" 2>&1
    fi >> "$scratch/messages"
  done < "$scratch/names"
  [ ! -s "$scratch/messages" ]
  result "gloo plan $1: $3" "$scratch/messages"
}

# shellcheck disable=SC2317
is_xml() {
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$scratch/out"
}
# shellcheck disable=SC2317
is_dot() {
  dot -Tcanon "$scratch/out"
}
# shellcheck disable=SC2317
is_json() {
  lines=$("$json" < "$scratch/out") && equal "$lines" 8
}

if command -v python3 > /dev/null; then
  every_algorithm --svg is_xml "well-formed"
else
  skipped "gloo plan --svg" "there is no python3"
fi
if command -v dot > /dev/null; then
  every_algorithm --dot is_dot "accepted by Graphviz"
else
  skipped "gloo plan --dot" "Graphviz is not installed"
fi
every_algorithm --json is_json "one object per rank"

# ---- a ring of 4 --------------------------------------------------------------

ring() {
  "$gloo" plan allreduce -a ring -n 4 -c 16 "$@"
}

ring --svg > "$scratch/svg"
# 6 rounds of 4 messages, 3 of them combined, and the two of the legend.
equal "$(grep -c '<path class="s1"' "$scratch/svg") $(grep -c '<path class="s0"' "$scratch/svg")" "13 13"
result "the picture has an arrow for every message"
grep -q '>IN\[0\.\.4)</text>' "$scratch/svg" && grep -q '<title>rank 0, step 0, to rank 1, step 1: SEND IN\[0..4)</title>' "$scratch/svg"
result "arrows are labelled with their elements"
for rank in 0 1 2 3; do grep -q ">rank $rank<" "$scratch/svg" || echo "$rank"; done > "$scratch/messages"
[ ! -s "$scratch/messages" ] && grep -q '>6</text>' "$scratch/svg" && ! grep -q '>7</text>' "$scratch/svg"
result "ranks are columns, and steps are rows" "$scratch/messages"
grep -q '@media (prefers-color-scheme: dark)' "$scratch/svg"
result "the picture has colours for dark backgrounds"

ring --dot > "$scratch/dot"
equal "$(grep -c 'r[0-3][_0-9]* -> r[0-3]_[0-5] \[color.*label="' "$scratch/dot")" 24
result "the graph has an edge for every message"
if command -v dot > /dev/null; then
  dot -Tplain "$scratch/dot" > "$scratch/plain" 2> "$scratch/messages" && [ ! -s "$scratch/messages" ]
  result "Graphviz places it without a warning" "$scratch/messages"
  # The ranks of each row from left to right.
  awk '$1 == "node" && $2 ~ /^r[0-3]_2$/ { print $3, $2 }' "$scratch/plain" | sort -n | awk '{ print $2 }' | tr '\n' ' ' > "$scratch/order"
  equal "$(cat "$scratch/order")" "r0_2 r1_2 r2_2 r3_2 "
  result "ranks are in order"
else
  skipped "the layout of the graph" "Graphviz is not installed"
fi

ring --json > "$scratch/json"
"$json" gloo_plan collective algorithm rank size count element_bytes in_place segment_bytes in_bytes out_bytes \
  scratch_bytes steps < "$scratch/json" > "$scratch/messages" 2>&1
result "gloo plan --json: objects with the promised keys" "$scratch/messages"
equal "$(grep -o '"kind": "SEND"' "$scratch/json" | wc -l)" 24
result "it has every message"
head -n 1 "$scratch/json" | grep -q '{"kind": "SEND", "row": 1, "peer": 1, "slot": 1, "message_bytes": 16, "reads": \[{"buffer": "out", "offset": 48, "bytes": 16}\], "writes": \[\], "waits_for": \[1\]}'
result "a step has its numbers" "$scratch/json"
ring --json -r 2 > "$scratch/one"
sed -n 3p "$scratch/json" | diff - "$scratch/one" > "$scratch/messages"
result "--rank selects one rank" "$scratch/messages"
"$gloo" plan broadcast -n 3 --root 1 --json | grep -q '"size": 3, "root": 1, "count"'
result "a rooted collective has a root"
grep -oE '"[a-z_]+":' "$scratch/json" | tr -d '":' | sort -u > "$scratch/keys"
sed -n '/^## Plans/,/^## /p' "$formats" > "$scratch/section"
while read -r key; do grep -q "\`$key\`" "$scratch/section" || echo "$key"; done < "$scratch/keys" > "$scratch/messages"
[ ! -s "$scratch/messages" ] && [ "$(wc -l < "$scratch/keys")" -ge 20 ]
result "every key is documented" "$scratch/messages"

# ---- refusals -----------------------------------------------------------------

out=$("$gloo" plan alltoall -a pairwise -n 512 -c 1 --svg 2>&1)
equal $? 1 && has "$out" "the plans of 512 ranks have more than 20000 steps in all"
result "a picture that is too large is refused"
out=$("$gloo" plan allreduce -n 4 --svg --dot 2>&1)
equal $? 2 && has "$out" "use only one of --list, --docs, --svg, --dot, --json"
result "one form at a time"
finish
