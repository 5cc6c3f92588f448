#!/bin/sh
# The transport `auto` uses RDMA only where GLOO_RDMA asks for it. Run with the stand-in
# in LD_LIBRARY_PATH.
# usage: auto.sh GLOO
gloo=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"
unset GLOO_TRANSPORT GLOO_RDMA

out=$("$gloo" info)
has "$out" "
  ibv                available, off (set GLOO_RDMA=1)" &&
  has "$("$gloo" info --json)" '"rdma": "available, off'
result "gloo info says that RDMA is available and off"
for asks in GLOO_RDMA=1 GLOO_TRANSPORT=ibv; do
  has "$(env "$asks" "$gloo" info)" "
  ibv                yes" && has "$(env "$asks" "$gloo" info --json)" '"rdma": "yes"'
  result "with $asks it says yes"
done
has "$(STANDIN_FAIL=get_device_list:1+ "$gloo" info)" "
  ibv                no: RDMA cannot be used here: "
result "without a device it says no, and why"

# opened VARIABLE...: do both ranks of a job open an RDMA device?
opened() {
  env "$@" GLOO_LOG_LEVEL=info "$gloo" run -n 2 -- "$gloo" bench allreduce --sizes 4 --iterations 2 \
    > "$scratch/out" 2>&1 && grep -c 'RDMA device standin0:1' "$scratch/out"
}
equal "$(opened GLOO_RDMA=)" 0
result "by default no rank opens the device" "$scratch/out"
equal "$(opened GLOO_TRANSPORT=auto GLOO_RDMA=0)" 0
result "nor with GLOO_TRANSPORT=auto" "$scratch/out"
equal "$(opened GLOO_RDMA=1)" 2
result "with GLOO_RDMA=1 both do" "$scratch/out"
! opened GLOO_RDMA=yes && has "$(cat "$scratch/out")" "GLOO_RDMA is 'yes'; it may be 0 or 1"
result "another value is an error"
finish
