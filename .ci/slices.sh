# shellcheck shell=bash
# Slices of what is too long for each change: .ci/run takes one by the hash of the tree,
# and those whose files have changed. Sourced by bash after .ci/lib.sh;
# defines functions only.

# number|name|files that always call for it
slices='1|launchers|^(tests/launchers/|tools/run|src/rendezvous/launch/)
2|python|^(python/(gloo_c/([^/]*$|torch/)|mpi/|native/|torch/|cdef)|tests/python/|pyproject)
3|jax|^(python/(gloo_c/jax/|native/|xla/|gloo_c_autoload|gloo_c/torch/_replace)|tests/(python/test_jax|frameworks/)|examples/frameworks/)
4|rdma|^(src/transport_ibv/|tests/transport_ibv/)
5|packages|^(debian/|cmake/|CMakeLists|docs/guide/build|scripts/(after-install|wheels|cross)|examples/(ci|docker|kubernetes)|\.github/|share/|tools/metrics|tests/(consumers|recipes)/|\.ci/(debian|install|wheels)$|tests/law/grow|pyproject)
6|big-endian|^\.ci/emulated
7|gpus|^(src/memory/gpu|src/(engine/memory|plan)/.*staged|tests/cuda/)
8|failing-calls|^tests/faults/(test_nth_call|failing_calls|faulty_)
9|sanitizers|^$
10|repeats|^src/(security|transport)[a-z_]*/tls
11|cross|^(cross/|scripts/cross|\.ci/cross$|meson\.build$|src/.*_(posix|none|uv|shm)\.c$)'
slice_count=$(wc -l <<<"$slices")

# What the site is made of. It takes half a minute, so a change of these calls for it
# without the rest of its slice.
# shellcheck disable=SC2034  # .ci/run reads it
site_files='^(docs/|include/gloo_c/|tools/|[A-Z]+\.md$|mkdocs\.yml$|scripts/(site|reference|command-reference)$|tests/site/)'

slice_field() { # number, field
  awk -F'|' -v number="$1" -v field="$2" '$1 == number {
    if (field < 3) print $field
    else { sub(/^[^|]*\|[^|]*\|/, ""); print } }' <<<"$slices"
}

# Prints a number below COUNT that follows from the hash of the tree, from the eight
# digits at OFFSET: choices at different offsets are independent.
chosen_by_tree() { # count, offset
  local tree
  tree=$(git rev-parse 'HEAD^{tree}')
  echo $((16#${tree:$2:8} % $1))
}

# Prints the slice of this tree, from 1.
slice_of_tree() { echo $(($(chosen_by_tree "$slice_count" 0) + 1)); }

# Prints the slices that the change calls for by its files, one a line.
slices_of_changes() {
  local number
  for ((number = 1; number <= slice_count; number++)); do
    if touches "$(slice_field "$number" 3)"; then echo "$number"; fi
  done
}

run_slice() { # number
  local name
  name=$(slice_field "$1" 2)
  printf '\n== slice %d of %d: %s\n' "$1" "$slice_count" "$name"
  "slice_${name//-/_}"
}

tested() { # name, options of scripts/test...
  suite "$1" scripts/test --cc=gcc --werror --retry "${@:2}"
}

# Real launchers; those that cannot be installed are skipped. With one of the engines on several hosts, as
# TEST_PART selects. Empty: all.
slice_launchers() {
  local names=(slurm_hosts torchrun_hosts torchrun_etcd mpi_hosts kubernetes_hosts)
  local part=${TEST_PART-$(chosen_by_tree ${#names[@]} 24)}
  tested launchers --suite=launchers ${part:+--without=engines}
  [ -z "$part" ] || tested engine --suite=launchers --name="launchers_${names[part]}"
}

# The package, PyTorch on it, and a quarter of what takes long: PyTorch's own tests, strangers.
slice_python() { TEST_PART=${TEST_PART-$(chosen_by_tree 4 8)/4} tested python --suite=python --suite=torch; }

# JAX, and the frameworks that start PyTorch.
slice_jax() { tested jax --suite=jax --suite=frameworks; }

# In a virtual machine. The long lists are for --all.
slice_rdma() { tested rdma --suite=ibv --without=matrix --without=jobs; }

# With a third of what takes long, as TEST_PART selects: Debian's packages and README's lines in
# clean systems; wheels of one target; recipes. Empty: all.
slice_packages() {
  local part=${TEST_PART-$(chosen_by_tree 3 8)} targets=(x86_64 aarch64 x86_64-musl)
  check "site" check_site
  tested consumers --suite=consumers --suite=growth --suite=prometheus
  case $part in
    '' | 0)
      # shellcheck disable=SC2154 # .ci/lib.sh assigns it
      suite debian .ci/debian "$logs/packages"
      suite install .ci/install "$logs/packages"
      ;;&
    '' | 1) suite wheels .ci/wheels ${part:+"${targets[$(chosen_by_tree 3 16)]}"} ;;&
    '' | 2) TEST_PART=${part:+$(chosen_by_tree 5 16)/5} tested recipes --suite=recipes ;;
  esac
}

# A processor that is not x86 and stores the most significant byte first.
slice_big_endian() { suite s390x .ci/emulated s390x; }

# An eighth of the seeds.
slice_gpus() {
  local parts=(tcp_1 tcp_251 tcp_501 tcp_751 shm_1 shm_251 shm_501 shm_751)
  tested gpus --slow --suite=cuda_standin --name="matrix_gpus_seeds_${parts[$(chosen_by_tree 8 8)]}"
  tested gpus-matrix --suite=cuda_standin
}

slice_failing_calls() { tested failing_calls --suite=nth_call; }

# The suites that the address sanitizer does not see with each change.
slice_sanitizers() {
  # shellcheck disable=SC2154  # .ci/run assigns it
  tested address --sanitize=address "${address_each[@]/#--suite=/--without=}" --without=once --without=law \
    --without=matrix --without=compare
}

# Transports and ranks once more: over a further transport, with TLS, with streams.
slice_repeats() { tested again --again --suite=again --without=ranks; }

# Everything for one other system, and for musl, where tests run; of these the suites that differ there.
# With TEST_PART empty: all.
slice_cross() {
  local linked=(aarch64-linux-musl aarch64-macos x86_64-freebsd x86_64-macos x86_64-windows)
  local part=${TEST_PART-$(chosen_by_tree ${#linked[@]} 8)}
  if [ -z "$part" ]; then
    suite cross .ci/cross
  else
    suite cross .ci/cross --some "${linked[part]}" x86_64-linux-musl
  fi
}
