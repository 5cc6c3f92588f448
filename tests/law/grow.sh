#!/bin/sh
# Option structs may grow: a program that was built against today's headers runs
# on a library whose option structs have one more field each, and one that was
# built against those headers runs on today's library as long as it leaves the
# new fields zero; if not, it gets the status that the headers promise.
# usage: grow.sh PROJECT BUILD C_COMPILER
set -u
project=$1 build=$2 cc=$3
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/../tools/tap.sh"

mkdir -p "$scratch/grown/docs"
cp "$project/docs/environment.md" "$scratch/grown/docs"
cp -R "$project/include" "$project/src" "$project/cmake" "$project/scripts" "$project/meson.build" "$project/meson_options.txt" \
  "$project/gloo_c.map" "$scratch/grown"
# A field at the end of each, and a zero for it in the initialiser.
awk -v list="$scratch/structs" '
  FNR == 1 { inside = 0 }
  /^typedef struct gloo_[a-z_]*options \{/ { inside = 1 }
  inside && /^\} gloo_[a-z_]*options;/ {
    print "  double one_more;" >FILENAME ".new"
    print $2 >list
    inside = 0
  }
  { print >FILENAME ".new" }' "$scratch"/grown/include/gloo_c/*.h
for header in "$scratch"/grown/include/gloo_c/*.h; do mv "$header.new" "$header"; done
structs=$(grep -c . "$scratch/structs")
cat "$scratch/structs" >"$scratch/messages"
[ "$structs" -ge 8 ]
result "there are $structs option structs" "$scratch/messages"

{
  meson setup "$scratch/built" "$scratch/grown" -Doptimization=0 -Dtests=false -Ddocs=disabled \
    -Dc_args=-Wno-missing-field-initializers && ninja -C "$scratch/built"
} >"$scratch/messages" 2>&1 </dev/null
result "the library builds with one more field in each" "$scratch/messages"

program() { # where the headers are, name
  $cc -o "$scratch/$2" "$scratch/$2.c" -I"$1" -L"$build" -lgloo_c -lpthread
}
cat >"$scratch/old.c" <<'END'
#include <gloo_c/gloo_c.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(call) \
  if ((call) != GLOO_OK) return puts(#call), puts(error.message), 1

static void larger(const gloo_custom_args *args) {
  const int *a = args->left, *b = args->right;
  for (size_t i = 0; i < args->count; i++)
    ((int *)args->result)[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Every option struct is used, with this header's size. */
int main(int argc, char **argv) {
  gloo_error error;
  gloo_device *device;
  gloo_context *context, *group;
  gloo_store *files, *tcp, *memory;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  gloo_init_options i = GLOO_INIT_OPTIONS_INIT;
  gloo_group_options g = GLOO_GROUP_OPTIONS_INIT;
  gloo_store_file_options f = GLOO_STORE_FILE_OPTIONS_INIT;
  gloo_store_tcp_options t = GLOO_STORE_TCP_OPTIONS_INIT;
  gloo_custom_op_options o = GLOO_CUSTOM_OP_OPTIONS_INIT;
  gloo_options options = GLOO_OPTIONS_INIT;
  int number = argc;
  d.transport = "tcp";
  f.directory = argv[1];
  t.host = "127.0.0.1";
  t.serve = 1;
  o.name = "larger";
  i.device = &d;
  i.context = &c;
  OK(gloo_store_file_create(&f, &files, &error));
  OK(gloo_store_tcp_create(&t, &tcp, &error));
  OK(gloo_store_memory_create(&memory, &error));
  OK(gloo_device_create(&d, &device, &error));
  OK(gloo_context_create(0, 1, memory, device, &c, &context, &error));
  OK(gloo_context_split(context, 0, 0, &g, &group, &error));
  OK(gloo_custom_op_create(larger, &o, &options.custom, &error));
  OK(gloo_allreduce(group, GLOO_IN_PLACE, &number, 1, GLOO_INT32, GLOO_CUSTOM,
                    &options, &error));
#ifdef GROWN
  options.one_more = 1;
  if (gloo_barrier(context, &options, &error) != GLOO_ERR_UNSUPPORTED)
    return puts("a field that it does not know was ignored"), 1;
  d.one_more = 1;
  gloo_device *none;
  if (gloo_device_create(&d, &none, &error) != GLOO_ERR_UNSUPPORTED)
    return puts("a field that it does not know was ignored"), 1;
  d.one_more = 0;
#endif
  gloo_custom_op_destroy(options.custom);
  gloo_context_destroy(group);
  gloo_context_destroy(context);
  gloo_device_destroy(device);
  gloo_store_destroy(memory);
  gloo_store_destroy(tcp);
  gloo_store_destroy(files);
  OK(gloo_init(&i, &context, &error));
  gloo_context_destroy(context);
  return number == argc ? 0 : 1;
}
END
cp "$scratch/old.c" "$scratch/new.c"
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

program "$project/include" old >"$scratch/messages" 2>&1 &&
  LD_LIBRARY_PATH=$scratch/built "$scratch/old" "$scratch/store" >"$scratch/messages" 2>&1
result "a program of today's headers runs on the library that has grown" "$scratch/messages"

LD_LIBRARY_PATH=$build "$scratch/old" "$scratch/store" >"$scratch/messages" 2>&1
result "and on today's" "$scratch/messages"

cc="$cc -DGROWN"
program "$scratch/grown/include" new >"$scratch/messages" 2>&1 &&
  LD_LIBRARY_PATH=$build "$scratch/new" "$scratch/store" >"$scratch/messages" 2>&1
result "a program of the grown headers runs on today's, or is refused what that does not know" "$scratch/messages"
finish
