#!/bin/sh
# A program of another project (examples/hello.c) finds the library in each way of
# docs/guide/build.md, by the build files that the page shows, and runs on two ranks: by
# pkg-config and CMake, shared and static, by FetchContent, and as a subproject of meson.
# usage: consumers.sh PROJECT BUILD C_COMPILER [ROOT]
# BUILD is a build directory, which determines the meson to use. The library is
# built and installed into a temporary folder; with ROOT the test uses what is
# installed there, as by packages, without a subproject.
set -u
project=$1 build=$2 root=${4:-}
export CC="$3"
page=$project/docs/guide/build.md
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
number=0
unset CFLAGS LDFLAGS DESTDIR PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH LD_LIBRARY_PATH

report() { # name, status
  number=$((number + 1))
  if [ "$2" -eq 0 ]; then
    echo "ok $number - $1"
  else
    tail -n 60 "$work/messages" | sed 's/^/# /'
    echo "not ok $number - $1"
  fi
}

skip() { # name, reason
  number=$((number + 1))
  echo "ok $number - $1 # SKIP $2"
}

run() { # command...: its output is shown if the case fails
  "$@" >>"$work/messages" 2>&1
}

block() { # language, number: prints a fenced block of the page
  awk -v fence="\`\`\`$1" -v number="$2" '$0 == "```" { on = 0 } on == number
    $0 == fence { on = ++seen }' "$page"
}

check() { # name, function...
  name=$1
  shift
  : >"$work/messages"
  ("$@")
  report "$name" $?
}

# ---- what is installed ---------------------------------------------------------

# The meson that made the build directory, which may not be first in PATH.
meson=$(sed -n 's/^ *COMMAND = \(.*\) install --no-rebuild$/\1/p' "$build/build.ninja" 2>/dev/null)
: "${meson:=meson}"
quickly="-Doptimization=0 -Ddebug=false -Dwarning_level=0"

# shellcheck disable=SC2086  # options
installed_from_build() {
  run $meson setup "$work/build" "$project" --prefix=/usr -Ddefault_library=both \
    -Dtests=false -Ddocs=disabled $quickly &&
    run $meson compile -C "$work/build" -j 2 &&
    DESTDIR=$work/root run $meson install --no-rebuild -C "$work/build"
}

installed_before() {
  mkdir "$work/root" && run cp -a "$root/usr" "$work/root/"
}

# Only the pkg-config file contains the full path of the prefix.
moved() {
  lib=$(dirname "$(find "$work/root" -name libgloo_c.a)") &&
    run sed -i "s|^prefix=.*|prefix=$work/root/usr|" "$lib/pkgconfig/gloo_c.pc"
}

if [ -n "$root" ]; then
  check "both libraries are installed" installed_before
else
  check "both libraries can be built and installed" installed_from_build
fi
check "what is installed can be moved" moved
lib=$(dirname "$(find "$work/root" -name libgloo_c.a)")
gloo=$work/root/usr/bin/gloo
export PKG_CONFIG_PATH="$lib/pkgconfig"

static_names() {
  nm --defined-only -g "$lib/libgloo_c.a" 2>>"$work/messages" |
    awk 'NF == 3 { print $3 }' | LC_ALL=C sort >"$work/names"
  grep -q '^gloo_allreduce$' "$work/names" &&
    ! grep -vE '^(gloo|gli)_' "$work/names" >>"$work/messages" &&
    ! uniq -d "$work/names" | grep . >>"$work/messages"
}

if command -v nm >/dev/null; then
  check "all names of the static library are gloo_* or gli_*, each once" static_names
else
  skip "names of the static library" "nm (package binutils) is not installed"
fi

# ---- programs ------------------------------------------------------------------

# Checks whether the program needs the shared library, as expected, and runs it.
runs() { # program, shared or static
  if command -v readelf >/dev/null; then
    run readelf -d "$1"
    needs=$(readelf -d "$1" | grep -c 'NEEDED.*libgloo_c')
    case $2 in shared) run [ "$needs" -eq 1 ] ;; static) run [ "$needs" -eq 0 ] ;; esac || return 1
  fi
  LD_LIBRARY_PATH=$lib run timeout 60 "$gloo" run -n 2 -- "$1" &&
    [ "$(grep -c 'rank [01] of 2: 1 + ... + 2 = 3' "$work/messages")" -eq 2 ]
}

by_pkg_config() { # kind, options...
  kind=$1
  shift
  # shellcheck disable=SC2046,SC2086
  run $CC "$project/examples/hello.c" -o "$work/$kind" $(pkg-config "$@" --cflags --libs gloo_c) &&
    runs "$work/$kind" "$kind"
}

configured_by_cmake() { # folder, version
  mkdir -p "$work/$1" && cp "$project/examples/hello.c" "$work/$1" &&
    block cmake 1 | sed "s/^find_package(gloo_c [0-9.]*/find_package(gloo_c $2/" >"$work/$1/CMakeLists.txt" &&
    run cmake -S "$work/$1" -B "$work/$1" -DCMAKE_PREFIX_PATH="$work/root/usr"
}

version=$(sed -n "s/^ *version: '\([0-9.]*\)',.*/\1/p" "$project/meson.build")

by_cmake() { # kind
  configured_by_cmake "cmake-$1" "${version%.*}" && grep -q '^find_package' "$work/cmake-$1/CMakeLists.txt" &&
    run cmake --build "$work/cmake-$1" && runs "$work/cmake-$1/hello" "$1"
}

refused_by_cmake() {
  ! configured_by_cmake "other" 77.1 && grep -q "77.1" "$work/messages" &&
    ! configured_by_cmake "other" "${version%%.*}.77" &&
    configured_by_cmake "other" "$version" && configured_by_cmake "other" ""
}

both_ways() { # shared or static, options for pkg-config...
  kind=$1
  shift
  if command -v pkg-config >/dev/null; then
    check "pkg-config: a program with the $kind library" by_pkg_config "$kind" "$@"
  else
    skip "pkg-config, $kind" "pkg-config is not installed"
  fi
  if command -v cmake >/dev/null; then
    check "CMake: a program with the $kind library" by_cmake "$kind"
  else
    skip "CMake, $kind" "cmake is not installed"
  fi
}

# The public headers include no headers of other libraries.
own_flags() {
  pkg-config --cflags gloo_c >"$work/flags" 2>>"$work/messages" && cat "$work/flags" >>"$work/messages" &&
    [ "$(tr -d ' \n' <"$work/flags")" = "-I$work/root/usr/include" ] &&
    run pkg-config --static --libs gloo_c && ! grep -q ibverbs "$work/messages"
}

if command -v pkg-config >/dev/null; then
  check "pkg-config: the compiler's flags are only those of the library" own_flags
else
  skip "pkg-config: flags" "pkg-config is not installed"
fi
both_ways shared
if command -v cmake >/dev/null; then
  check "CMake: another version is not found" refused_by_cmake
else
  skip "CMake: versions" "cmake is not installed"
fi
rm -f "$lib"/libgloo_c.so*
both_ways static --static

# Other libraries must be there as static ones.
all_static() {
  # shellcheck disable=SC2046,SC2086
  run $CC -static "$project/examples/hello.c" -o "$work/all-static" $(pkg-config --static --cflags --libs gloo_c) &&
    runs "$work/all-static" static && ! readelf -d "$work/all-static" 2>&1 | grep NEEDED >>"$work/messages"
}

lacking=''
for name in $(pkg-config --static --libs-only-l gloo_c 2>/dev/null | sed 's/-l:lib\([^ ]*\)\.a/\1/g; s/-l//g; s/gloo_c//') c; do
  [ "$($CC -print-file-name="lib$name.a")" != "lib$name.a" ] || lacking="$lacking lib$name.a"
done
if [ -n "$lacking" ] || ! command -v pkg-config >/dev/null || ! command -v readelf >/dev/null; then
  skip "pkg-config: a program that is static as a whole" "not installed:${lacking:- pkg-config or readelf}"
else
  check "pkg-config: a program that is static as a whole" all_static
fi

# ---- a part of another project -------------------------------------------------

# shellcheck disable=SC2086  # options
by_fetch_content() {
  mkdir "$work/fetch" && cp "$project/examples/hello.c" "$work/fetch" && block cmake 2 >"$work/fetch/CMakeLists.txt" &&
    run cmake -S "$work/fetch" -B "$work/fetch/build" -DFETCHCONTENT_SOURCE_DIR_GLOO_C="$project" \
      -DGLOO_C_MESON="${meson%% *}" -DGLOO_C_MESON_OPTIONS="$(echo $quickly | tr ' ' ';')" &&
    run cmake --build "$work/fetch/build" || return 1
  gloo=$work/fetch/build/_deps/gloo_c-build/prefix/bin/gloo
  runs "$work/fetch/build/hello" static
}

# The archive stands for the repository.
# shellcheck disable=SC2086  # options
as_subproject() {
  mkdir -p "$work/outer/subprojects/packagefiles" "$work/gloo_c" && block meson 1 >"$work/outer/meson.build" &&
    cp "$project/examples/hello.c" "$work/outer" &&
    block ini 1 | sed '/^url\|^revision\|^depth/d
      s/^\[wrap-git\]/[wrap-file]\ndirectory = gloo_c\nsource_filename = gloo_c.tar/' >"$work/outer/subprojects/gloo_c.wrap" &&
    (cd "$project" && run tar cf "$work/outer/subprojects/packagefiles/gloo_c.tar" --transform 's|^|gloo_c/|' \
      meson.build meson_options.txt gloo_c.map cmake docs/environment.md include scripts src) || return 1
  run $meson setup "$work/outer/build" "$work/outer" --force-fallback-for=gloo_c \
    -Ddefault_library=static $quickly &&
    run $meson compile -C "$work/outer/build" -j 2 &&
    ! find "$work/outer/build/" -path '*subprojects*' -type f -perm -100 ! -name '*.so*' |
    grep . >>"$work/messages" &&
    runs "$work/outer/build/hello" static
}

if [ -z "$root" ]; then
  check "meson: a program that has the project as a subproject" as_subproject
  if command -v cmake >/dev/null; then
    check "CMake: a program that builds the project by FetchContent" by_fetch_content
  else
    skip "CMake: FetchContent" "cmake is not installed"
  fi
fi
echo "1..$number"
