#!/usr/bin/env bash
# Makes the files of a release from a tag, such as v0.2.0, in a clone of its own: uncommitted changes have no effect.
# Nothing is pushed. OUTPUT_FOLDER is new or empty, and gets
#
#   linea-VERSION.tar.gz                     the sources
#   linea_*.deb, liblinea-dev_*.deb          where dpkg is installed
#   linea-VERSION-linux-*.tar.gz, *.whl      of tools/make-packages.sh, and for ARM64 where its cross compiler is installed
#   SHA256SUMS
#
# All is compiled with warnings as errors.
#
#   tools/release.sh TAG OUTPUT_FOLDER
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: tools/release.sh TAG OUTPUT_FOLDER"; exit 2; }
tag=$1 out=$(realpath -m "$2") repository=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
refuse() { echo "$*"; exit 1; }
at_tag() { git -C "$repository" show "refs/tags/$tag:$1"; }

git -C "$repository" rev-parse -q --verify "refs/tags/$tag^{commit}" >/dev/null || refuse "There is no tag $tag: make it by git tag $tag COMMIT"
version=${tag#v}
project=$(at_tag CMakeLists.txt | sed -n 's/^project(linea VERSION \([0-9.]*\).*/\1/p')
[ "$project" = "$version" ] || refuse "CMakeLists.txt of $tag has VERSION $project: change it to $version and move the tag, or use v$project"
newest=$(at_tag CHANGELOG.md | sed -n 's/^## \([^ ]*\).*/\1/p' | sed -n 1p)
[ "$newest" = "$version" ] || refuse "The newest heading of CHANGELOG.md of $tag is $newest: change it to $version (DATE) and move the tag"
cited=$(at_tag CITATION.cff | sed -n 's/^version: //p')
[ "$cited" = "$version" ] || refuse "CITATION.cff of $tag has version $cited: change it to $version and move the tag"
[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || refuse "$out is not empty: name a new folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
skipped=()
git -C "$repository" archive --format=tar.gz --prefix="linea-$version/" -o "$out/linea-$version.tar.gz" "refs/tags/$tag"
git -c advice.detachedHead=false clone -q --shared --branch "$tag" "$repository" "$work/linea"
cd "$work/linea"

packages() { # options of tools/make-packages.sh
  local code=0
  tools/make-packages.sh "$@" -DLINEA_WERROR=ON || code=$?
  [ $code -eq 0 ] || [ $code -eq 77 ] || refuse "tools/make-packages.sh $* failed"
  [ $code -eq 0 ] || skipped+=("a part of the tests of tools/make-packages.sh: its output says why")
}
packages
if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
  [ ! -f "$repository/build/arm64-sysroot/files" ] || ln -s "$repository/build/arm64-sysroot" build/
  packages --arm64
else
  skipped+=("the packages for ARM64: install g++-aarch64-linux-gnu and qemu-user")
fi
cp build/packages/*.tar.gz build/packages/*.whl "$out/"

if command -v dpkg-shlibdeps >/dev/null; then
  cmake --preset release -DLINEA_TESTS=OFF -DLINEA_MPI=OFF -DLINEA_WERROR=ON >/dev/null
  cmake --build --preset release
  (cd build/release && cpack >/dev/null)
  cp build/release/*.deb "$out/"
  dpkg -x "$out"/linea_*.deb "$work/installed"
  "$work/installed/usr/bin/linea" --version | grep -F "linea $version"
else
  skipped+=("the .deb packages: install dpkg-dev")
fi

cd "$out"
sha256sum -- *.* >SHA256SUMS
ls -l
[ ${#skipped[@]} -eq 0 ] || printf 'Skipped: %s\n' "${skipped[@]}"
