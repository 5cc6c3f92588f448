#!/bin/bash -eu
# Builds the fuzz targets as OSS-Fuzz runs them. It sets SRC, WORK and OUT, which are
# folders, the compiler with its flags, and LIB_FUZZING_ENGINE. OUT gets each target with
# its inputs, dictionary and options, and the shared libraries that it needs.
build=$WORK/build
# The runner has no library but those in OUT.
LDFLAGS="${LDFLAGS:-} ${CXXFLAGS:-} -Wl,-rpath,\$ORIGIN/lib"
export LDFLAGS
meson setup "$build" "$SRC/gloo_c" -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" -Dhardening=false \
  -Db_lundef=false -Doptimization=1 -Ddefault_library=static -Ddocs=disabled
ninja -C "$build" fuzz

mkdir -p "$OUT/lib"
for target in "$build"/tests/fuzz/fuzz_*; do
  if [ ! -f "$target" ] || [ ! -x "$target" ]; then continue; fi
  name=${target##*/}
  inputs=$SRC/gloo_c/tests/fuzz/corpus/${name#fuzz_}
  dictionary=$SRC/gloo_c/tests/fuzz/${name#fuzz_}.dict
  cp "$target" "$OUT/"
  [ ! -d "$inputs" ] || (cd "$inputs" && python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" ./*)
  [ ! -f "$dictionary" ] || cp "$dictionary" "$OUT/$name.dict"
  printf '[libfuzzer]\nmax_len = 1024\ntimeout = 30\n' >"$OUT/$name.options"
  ldd "$target" | awk '/lib(uv|hiredis|jansson|ssl|crypto)\./ && $3 ~ /^\// { print $3 }' |
    xargs -r cp -Lt "$OUT/lib"
done
