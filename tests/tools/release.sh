#!/usr/bin/env bash
# scripts/release in a clone with its builds replaced: what it checks, what it runs, and
# in which order.
# usage: release.sh PROJECT
set -u
project=$1
# shellcheck source=tests/tools/tap.sh
. "$(dirname "$0")/tap.sh"
if ! command -v git >/dev/null || ! command -v sha256sum >/dev/null; then
  echo "1..0 # SKIP git or sha256sum is missing"
  exit 0
fi
unset "${!GIT_@}"
export HOME=$scratch GIT_CONFIG_NOSYSTEM=1
git config --global user.name maintainers
git config --global user.email maintainers@localhost
git config --global init.defaultBranch main

# The files that a release reads, with a date in the changelog. ABI, wheels and packages
# have tests of their own.
tree=$scratch/tree
mkdir -p "$tree/scripts" "$tree/debian" "$tree/.ci" "$tree/abi"
cp "$project/scripts/release" "$project/scripts/lib.sh" "$tree/scripts/"
cp "$project/meson.build" "$project/CHANGELOG.md" "$tree/"
cp "$project/debian/changelog" "$project/debian/control" "$tree/debian/"
# shellcheck disable=SC2016
printf '#!/bin/sh\ncat abi/said\nexit "$(cat abi/status)"\n' >"$tree/scripts/abi"
# shellcheck disable=SC2016
printf '#!/bin/sh\n[ "$1" = --into ] && mkdir -p "$2" && echo wheel >"$2/gloo_c.whl"\n' >"$tree/scripts/wheels"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho package >"$1/libgloo-c0.deb"\n' >"$tree/.ci/debian"
chmod +x "$tree/scripts/abi" "$tree/scripts/wheels" "$tree/.ci/debian"
: >"$tree/abi/said"
echo 0 >"$tree/abi/status"
echo 'build*/' >"$tree/.gitignore"
cd "$tree" || exit 99
version=$(sed -nE "s/^ *version: '([^']+)'.*/\1/p" meson.build | head -n 1)
sed -i -E "0,/^## /s/^## .*/## $version (2026-12-01)/" CHANGELOG.md
git init -q . && git add -A && git commit -qm "all: begin"

release() {
  out=$(scripts/release "$@" 2>&1 </dev/null)
  status=$?
}

# reports NAME TEXT STATUS_OF_DRY_RUN: also refused by the real run, without a tag. Undoes
# the change to the tree.
reports() {
  release --dry-run
  [ "$status" -eq "$3" ] && has "$out" "$2"
  result "$1"
  release
  [ "$status" -eq 1 ] && has "$out" "$2" && [ -z "$(git tag)" ] && [ ! -e build-release ]
  result "$1: nothing is released"
  git checkout -q . && git clean -qfd
}

release --dry-run
# shellcheck disable=SC2016
[ "$status" -eq 0 ] && has "$out" '$ git tag -a -m gloo_c' && has "$out" "open checks: 0" &&
  [ -z "$(git tag)" ] && [ ! -e build-release ]
result "a dry run prints the commands and changes nothing"

echo "gloo-c (9.9.9) unstable; urgency=medium" | cat - debian/changelog >changed && mv changed debian/changelog
reports "another version in debian/changelog" "wrong debian/changelog: the version is '9.9.9', in meson.build '$version'" 1
sed -i "0,/^## /s/^## .*/## 9.9.9 (2026-12-01)/" CHANGELOG.md
reports "another version in CHANGELOG.md" "wrong CHANGELOG.md: the version is '9.9.9'" 1
sed -i "0,/^ *version: /s/version: '[^']*'/version: '9.9'/" meson.build
reports "a version of two numbers" "wrong meson.build: the version is '9.9'; expected three numbers" 1
sed -i "0,/^## /s/^## .*/## $version (unreleased)/" CHANGELOG.md
reports "no date" "open  CHANGELOG.md: '## $version (unreleased)' has no date" 0
sed -i '1s/unstable;/UNRELEASED;/' debian/changelog
reports "a Debian changelog that is not finished" "open  debian/changelog: the distribution is UNRELEASED" 0
sed -i "s/soversion: '[0-9]*'/soversion: '7'/" meson.build
reports "a new number of the library in an old package" "wrong meson.build: soversion is 7" 1
echo 1 >abi/status && echo "error: no longer: function gloo_init" >abi/said && git commit -qam "abi: lose"
reports "a lost function" "wrong ABI: error: no longer: function gloo_init" 1
echo 0 >abi/status && echo "new: function gloo_more" >abi/said && git commit -qam "abi: gain"
reports "a function that is not written down" "open  ABI: abi/gloo_c.abi lacks 'new: function gloo_more': run scripts/abi --update" 0
echo 77 >abi/status && echo "scripts/abi: abidw is missing" >abi/said && git commit -qam "abi: skip"
reports "an ABI that was not compared" "open  ABI: not compared: scripts/abi: abidw is missing" 0
echo 0 >abi/status && : >abi/said && git commit -qam "abi: agree"
touch forgotten
reports "a file that is not committed" "open  not committed: ?? forgotten" 0

printf '#!/bin/sh\nexit 3\n' >scripts/wheels && git commit -qam "wheels: fail"
release
[ "$status" -eq 1 ] && has "$out" "failed: scripts/wheels" && [ -z "$(git tag)" ]
result "no tag is made if a build fails"
git revert --no-edit HEAD >"$scratch/log" 2>&1

release
[ "$status" -eq 0 ] && equal "$(git tag)" "v$version" && equal "$(git rev-parse "v$version^{}")" "$(git rev-parse HEAD)"
result "a release makes the tag"
(cd build-release && sha256sum --quiet -c SHA256SUMS) &&
  equal "$(cut -d' ' -f3 build-release/SHA256SUMS | tr '\n' ' ')" "debian/libgloo-c0.deb gloo_c-$version.tar.gz wheels/gloo_c.whl "
result "sources, wheels and packages have their sums"
equal "$(tar tzf "build-release/gloo_c-$version.tar.gz" | head -n 1)" "gloo_c-$version/"
result "the archive has one folder"
release
[ "$status" -eq 1 ] && has "$out" "wrong the tag v$version exists"
result "a version is released once"

# The tree itself: what it says agrees, whatever is open.
cd "$project" || exit 99
sed '/^check_abi$/d' scripts/release >"$scratch/versions"
sed -i "s|^cd .*|cd '$project' \|\| exit 1|" "$scratch/versions"
out=$(bash "$scratch/versions" --dry-run 2>&1)
status=$?
[ "$status" -eq 0 ] || has "$out" "wrong the tag"
result "the versions of this tree agree"
finish
