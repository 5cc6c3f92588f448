#!/bin/sh
# Ranks on two hosts, and a stranger on one of them that knows all public values:
# addresses, ports, the job's name. Two network namespaces act as the hosts.
# usage: two_hosts.sh GLOO ROUNDS PMI_LAUNCHER PYTHON with|without
# The last argument tells if the build has OpenSSL.
gloo=$1 rounds=$2 launcher=$3 python=$4 openssl=$5
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/tools/tap.sh
. "$here/../tools/tap.sh"
# shellcheck source=tests/tools/networks.sh
. "$here/../tools/networks.sh"
[ "$openssl" = with ] || skip "a build without OpenSSL asks nobody"
enter_network 240 "$0" "$@"

another_network && link_networks ge$$ 10.213.78.1/24 gf$$ 10.213.78.2/24
result "two network namespaces are joined by a link"

export HOME="$scratch"
for name in $(env | sed -nE 's/^(GLOO_[A-Z0-9_]*|RANK|WORLD_SIZE|LOCAL_[A-Z_]*|MASTER_[A-Z]*|PMI_[A-Z]*)=.*/\1/p'); do
  unset "$name"
done

# stranger PORT [JOB]: takes the place of rank 1 from the other host, as soon as rank 0
# serves the store. The status is 0 if it succeeds.
stranger() {
  RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.213.78.1 MASTER_PORT=$1 GLOO_JOB_ID=$2 GLOO_LOG_LEVEL=error \
    timeout -k 5 60 nsenter -t $other -n "$rounds" 0 > "$scratch/stranger" 2>&1
}

# ---- no secret: the job starts, with a warning -------------------------------

export RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.213.78.1 MASTER_PORT=20101
timeout -k 5 60 "$rounds" 0 > "$scratch/all" 2>&1 &
first=$!
stranger 20101 ''
is_in=$?
wait $first
equal "$? $is_in" "0 0" && has "$(cat "$scratch/stranger")" "rank 1: well"
result "without a secret the stranger is rank 1" "$scratch/all"
equal "$(grep -c WARN "$scratch/all")" 1 &&
  has "$(cat "$scratch/all")" "can join this job: no job secret is set" &&
  has "$(cat "$scratch/all")" "GLOO_JOB_SECRET to the same value on all ranks (openssl rand -hex 32)"
result "and rank 0 says so, in one line with a remedy" "$scratch/all"

for word in required require; do
  GLOO_SECURITY=$word timeout -k 5 60 "$rounds" 0 > "$scratch/all" 2>&1
  equal $? 1 && has "$(cat "$scratch/all")" "GLOO_SECURITY=required, but no job secret is set"
  result "GLOO_SECURITY=$word: rank 0 does not start" "$scratch/all"
done
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

# ---- gloo run --hosts --------------------------------------------------------

# The rank on the other host starts after the stranger's attempt. The first host is this one.
fake=$scratch/fake
mkdir "$fake"
cat > "$fake/ssh" << END
#!/bin/sh
while [ \$# -gt 1 ]; do shift; done
exec nsenter -t $other -n sh -c "\$*"
END
chmod +x "$fake/ssh"
cat > "$scratch/late" << END
#!/bin/sh
echo "\$GLOO_JOB_ID" > "$scratch/job.\$RANK"
[ \$RANK = 0 ] || until [ -e "$scratch/turn" ]; do sleep 0.05; done
exec "$rounds" 0
END
chmod +x "$scratch/late"
PATH="$fake:$PATH" timeout -k 5 100 "$gloo" run -n 2 --hosts 10.213.78.1,10.213.78.2 --port 20102 -- \
  "$scratch/late" > "$scratch/all" 2>&1 &
job=$!
# The stranger may know the job's name.
wait_until test -s "$scratch/job.1"
stranger 20102 "$(cat "$scratch/job.1")"
is_in=$?
: > "$scratch/turn"
wait $job
equal "$? $is_in $(grep -c ': well' "$scratch/all")" "0 1 2" &&
  has "$(cat "$scratch/stranger")" "requires the job secret, but none is set in this client"
result "gloo run --hosts: the stranger stays outside, and the job works" "$scratch/all"
equal "$(grep -c 'can join this job' "$scratch/all")" 0
result "and there is nothing to warn of" "$scratch/all"

# ---- a launcher that speaks PMI ----------------------------------------------

# Ranks 0 and 1 run here, 2 and 3 on the other host. From there the stranger attacks all
# listeners here.
rank="$scratch/rank"
cat > "$rank" << END
#!/bin/sh
[ \$PMI_RANK -lt 2 ] || exec nsenter -t $other -n "$rounds" 3000
exec "$rounds" 3000
END
chmod +x "$rank"
for security in auth required; do
  GLOO_SECURITY=$security timeout -k 5 100 "$launcher" 4 "$rank" > "$scratch/all" 2>&1 &
  job=$!
  nsenter -t $other -n "$python" "$here/stranger.py" reach 2 $$ 10.213.78.1 > "$scratch/stranger" 2>&1
  outside=$?
  wait $job
  equal "$? $outside $(grep -c ': well' "$scratch/all")" "0 0 4" &&
    has "$(cat "$scratch/stranger")" "hellos to a store by name" &&
    has "$(cat "$scratch/stranger")" "hellos to a rank over TCP"
  result "PMI, GLOO_SECURITY=$security: the stranger gets nothing, and the job works" "$scratch/all"
  sed 's/^/# /' "$scratch/stranger"
  equal "$(grep -c 'can join this job' "$scratch/all")" 0
  result "and there is nothing to warn of" "$scratch/all"
done
finish
