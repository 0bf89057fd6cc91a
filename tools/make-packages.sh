#!/usr/bin/env bash
# Makes, of the program with all libraries but glibc's, which it finds by its own place, and their licences,
#
#   build/packages/linea-VERSION-linux-MACHINE.tar.gz
#   build/packages/linea_attention-VERSION-py3-none-manylinux_GLIBC_MACHINE.whl      for pip, with linea_model.py
#   build/packages/SHA256SUMS
#
# Then trains 2 steps from the former in a root folder with nothing but glibc, and from the latter in a virtual environment
# in a bare Debian, where debootstrap is installed. Exit code 77: made, but not tried, for want of root.
#
#   tools/make-packages.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# RPATH, unlike RUNPATH, also holds for the libraries of libraries.
cmake -G Ninja -S . -B build/program -DCMAKE_BUILD_TYPE=Release -DLINEA_TESTS=OFF -DLINEA_MPI=OFF \
  '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null
cmake --build build/program --target linea linea_manual
version=$(sed -n 's/^project(linea VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=linea-$version-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$name
cmake --install build/program --component program --strip --prefix "$folder" >/dev/null

glibc='/(ld-linux|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil)[-.][^/]*$'
mkdir -p "$folder/lib" "$folder/share/doc/licences"
ldd build/program/linea | grep -oE '/[^ ]+' >"$work/all"
grep -vE "$glibc" "$work/all" | while read -r library; do
  cp -L "$library" "$folder/lib/"
  for path in "$library" "$(realpath "$library")" "/usr$library" "/usr$(realpath "$library")"; do
    package=$(dpkg -S "$path" 2>/dev/null | head -n 1 | cut -d: -f1) || true
    [ -z "$package" ] || break
  done
  copyright=/usr/share/doc/$package/copyright
  [ -n "$package" ] && [ -f "$copyright" ] || { echo "no licence was found for $library"; exit 1; }
  cp -L "$copyright" "$folder/share/doc/licences/$package"
  echo "lib/$(basename "$library"): $package $(dpkg-query -W -f '${Version}' "$package" | head -n 1)" >>"$work/list"
done
# Headers alone, which are compiled into the program.
for package in libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libstb-dev; do
  cp -L "/usr/share/doc/$package/copyright" "$folder/share/doc/licences/$package"
  echo "in bin/linea: $package" >>"$work/list"
done
sort "$work/list" >"$folder/share/doc/licences/LIST"
needs=$(objdump -T "$folder"/bin/linea "$folder"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
out=build/packages
rm -rf $out
mkdir -p $out
tar -C "$work" --owner=0 --group=0 --sort=name --mtime=@0 -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz: $(du -h "$out/$name.tar.gz" | cut -f1), needs ${needs/_/ } or later"
python3 tools/make_wheel.py "$folder" "$version" "${needs#GLIBC_}" "$(uname -m)" $out
(cd $out && sha256sum -- *.tar.gz *.whl >SHA256SUMS)

[ "$(id -u)" -eq 0 ] && command -v chroot >/dev/null || { echo "Skipped: the test in an empty root folder needs root"; exit 77; }
bare=$work/bare
mkdir -p "$bare/tmp" "$bare/proc"
# Programs find their place by /proc.
mount -t proc proc "$bare/proc" || { echo "Skipped: /proc cannot be mounted here"; exit 77; }
trap 'umount -l "$bare/proc" || true; rm -rf --one-file-system "$work"' EXIT
grep -E "$glibc" "$work/all" | while read -r library; do
  mkdir -p "$bare$(dirname "$library")"
  cp -L "$library" "$bare$library"
done
tar -C "$bare" -xzf "$out/$name.tar.gz"
chroot "$bare" "/$name/bin/linea" train --task digits --size 12 --levels 4 --examples 200 --layers 1 --heads 2 --dim 16 \
  --ffn 32 --batch 2 --steps 2 --out /tmp/run >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep "step 2/2" "$work/log" || { cat "$work/log"; exit 1; }
chroot "$bare" "/$name/bin/linea" sample /tmp/run --count 2 --out /tmp/grid.png >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
test -s "$bare/tmp/grid.png"
echo "the tarball trains and samples where only glibc is"
tools/check-wheel.sh $out/*.whl
