#!/usr/bin/env bash
# Makes, of the program with all libraries but glibc's, which it finds by its own place, and their licences,
#
#   build/packages/linea-VERSION-linux-MACHINE.tar.gz
#   build/packages/linea_attention-VERSION-py3-none-manylinux_GLIBC_MACHINE.whl      for pip, with linea_model.py
#   build/packages/SHA256SUMS
#
# Then trains 2 steps from the former in a root folder with nothing but glibc, and from the latter in a virtual environment
# in a bare Debian, where debootstrap is installed. Exit code 77: made, but not tried, for want of root. --arm64 makes them
# for that machine by Debian's cross compiler, and tries them under qemu by tools/check-packages-arm64.sh.
#
#   tools/make-packages.sh [--arm64] [OPTION OF CMAKE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
machine=$(uname -m) build=build/program sysroot= objdump=objdump options=()
if [ "${1:-}" = --arm64 ]; then
  shift
  for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $tool >/dev/null || { echo "$tool is not here: install g++-aarch64-linux-gnu and qemu-user"; exit 1; }
  done
  source tools/setup.sh
  source tools/arm64-sysroot.sh
  machine=aarch64 build=build/program-arm64 objdump=aarch64-linux-gnu-objdump
  options=(-DCMAKE_TOOLCHAIN_FILE=cmake/arm64-linux.cmake -DLINEA_SYSROOT="$sysroot")
  export GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1  # qemu does not start /proc/self/exe again, and threads wait long in it
fi
# RPATH, unlike RUNPATH, also holds for the libraries of libraries. The shared library of C++ needs glibc 2.36; of the static one
# the program takes only what needs 2.35. libfmt.so would bring the shared one back, so its headers are compiled in.
cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=Release -DLINEA_TESTS=OFF -DLINEA_MPI=OFF -DCMAKE_CXX_FLAGS=-DFMT_HEADER_ONLY \
  '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib' \
  '-DCMAKE_EXE_LINKER_FLAGS=-static-libstdc++ -Wl,--gc-sections,--as-needed,--disable-new-dtags' "${options[@]}" "$@" >/dev/null
cmake --build $build --target linea linea_manual
version=$(sed -n 's/^project(linea VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=linea-$version-linux-$machine
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$name
cmake --install $build --component program --strip --prefix "$folder" >/dev/null

glibc='/(ld-linux|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil)[-.][^/]*$'
mkdir -p "$folder/lib" "$folder/share/doc/licences"
if [ -n "$sysroot" ]; then  # as ldd does, and without the folder that a path of the linker begins with
  qemu-aarch64 -L "$sysroot" -E LD_TRACE_LOADED_OBJECTS=1 $build/linea | sed "s|$sysroot/|/|"
else
  ldd $build/linea
fi | grep -oE '/[^ ]+' >"$work/all"
owner() { # path of a library: its package and the package's version
  local path package
  if [ -n "$sysroot" ]; then
    awk -v path="$1" '$3 == path { print $1, $2; exit }' "$sysroot/files"
    return
  fi
  for path in "$1" "$(realpath "$1")" "/usr$1" "/usr$(realpath "$1")"; do
    package=$(dpkg -S "$path" 2>/dev/null | head -n 1 | cut -d: -f1) || true
    [ -z "$package" ] || { echo "$package $(dpkg-query -W -f '${Version}\n' "$package" | head -n 1)"; return; }
  done
}
grep -vE "$glibc" "$work/all" | while read -r library; do
  cp -L "$sysroot$library" "$folder/lib/"
  read -r package package_version <<<"$(owner "$library")"
  copyright=$sysroot/usr/share/doc/$package/copyright
  [ -n "$package" ] && [ -f "$copyright" ] || { echo "no licence was found for $library"; exit 1; }
  cp -L "$copyright" "$folder/share/doc/licences/$package"
  echo "lib/$(basename "$library"): $package $package_version" >>"$work/list"
done
# What is compiled into the program: headers alone, and the static library of C++.
for package in libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libstb-dev libfmt-dev; do
  cp -L "$sysroot/usr/share/doc/$package/copyright" "$folder/share/doc/licences/$package"
  echo "in bin/linea: $package" >>"$work/list"
done
compiler=$("$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' $build/CMakeCache.txt)" -dumpversion)
cp -L "/usr/share/doc/libstdc++-$compiler-dev/copyright" "$folder/share/doc/licences/libstdc++"
echo "in bin/linea: libstdc++ $compiler" >>"$work/list"
sort "$work/list" >"$folder/share/doc/licences/LIST"
needs=$($objdump -T "$folder"/bin/linea "$folder"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
out=build/packages
mkdir -p $out
[[ ${needs#GLIBC_2.} -le 35 ]] || { echo "$needs is needed, and the documents promise 2.35"; exit 1; }
rm -f $out/*"$machine"*
tar -C "$work" --owner=0 --group=0 --sort=name --mtime=@0 -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz: $(du -h "$out/$name.tar.gz" | cut -f1), needs ${needs/_/ } or later"
python3 tools/make_wheel.py "$folder" "$version" "${needs#GLIBC_}" "$machine" $out
(cd $out && sha256sum -- *.tar.gz *.whl >SHA256SUMS)
if [ -n "$sysroot" ]; then
  tools/check-packages-arm64.sh "$out/$name.tar.gz" $out/*"$machine".whl "$sysroot"
  exit
fi

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
tools/check-wheel.sh $out/*"$machine".whl
