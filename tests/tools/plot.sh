#!/bin/sh
# gloo bench --svg: the plot has the measured points, on logarithmic axes.
# usage: plot.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"

"$gloo" bench allreduce --ranks 2 --threads --algorithm all --sizes 4,1K,256K --iterations 5 --json \
  --svg "$scratch/plot.svg" > "$scratch/points" 2> "$scratch/messages" && [ -s "$scratch/plot.svg" ]
result "a plot is written beside the results" "$scratch/messages"
if command -v python3 > /dev/null; then
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$scratch/plot.svg" > "$scratch/messages" 2>&1
  result "it is well-formed" "$scratch/messages"
  # The middle of each mark, as the time of each line says: all of one scale.
  cat > "$scratch/check.py" <<'END'
import json, math, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
text = open(sys.argv[2]).read()
marks = [(float(x), float(y)) for x, y in re.findall(r'<path class="f\d" d="M([\d.]+) ([\d.]+)m', text)]
names = list(dict.fromkeys(line["algorithm"] for line in lines))
marks = [mark for mark in marks if mark[0] < 650]  # without the legend
assert len(marks) == len(lines) == 3 * len(names) and len(names) > 5, (len(marks), len(lines))
points = sorted((names.index(line["algorithm"]), line["bytes"], line["p50_us"]) for line in lines)
(_, b0, t0), (_, b1, t1) = points[0], points[2]
(x0, y0), (x1, y1) = marks[0], marks[2]
for (_, size, us), (x, y) in zip(points, marks):
    want_x = x0 + (math.log(size / b0)) / math.log(b1 / b0) * (x1 - x0)
    want_y = y0 + (math.log(us / t0)) / math.log(t1 / t0) * (y1 - y0)
    assert abs(x - want_x) < 0.3 and abs(y - want_y) < 0.5, (size, us, x, y, want_x, want_y)
END
  python3 "$scratch/check.py" "$scratch/points" "$scratch/plot.svg" > "$scratch/messages" 2>&1
  result "each point is where its size and time belong" "$scratch/messages"
else
  skipped "the points of the plot" "there is no python3"
fi
sed 's/.*"algorithm": "\([a-z_0-9]*\)".*/\1/' "$scratch/points" | sort -u | while read -r name; do
  grep -q ">$name</text>" "$scratch/plot.svg" || echo "$name"
done > "$scratch/missing"
[ ! -s "$scratch/missing" ] && grep -q '>allreduce float32 sum, 2 ranks (threads), inproc</text>' "$scratch/plot.svg" &&
  grep -q '>256K</text>' "$scratch/plot.svg" && grep -qE '>10+ us</text>' "$scratch/plot.svg"
result "it names the algorithms, the call and the axes" "$scratch/missing"

out=$("$gloo" bench allreduce --ranks 1 --threads --sizes 4 --iterations 1 --svg "$scratch/none/plot.svg" 2>&1)
equal $? 1 && has "$out" "cannot write $scratch/none/plot.svg: No such file or directory"
result "a file that cannot be written is named before measuring"
out=$("$gloo" bench barrier --ranks 1 --threads --svg "$scratch/barrier.svg" 2>&1)
equal $? 2 && has "$out" "barrier has no sizes to plot"
result "a barrier has no plot"
finish
