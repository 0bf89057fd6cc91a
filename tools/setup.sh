# Sourced by demo.sh, test.sh and tools: installs missing packages from the distribution, configures, builds and tests.
# Downloads nothing else.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# package: why
linea_packages=(
  "g++: the compiler"
  "cmake: configures the build"
  "ninja-build: runs the build"
  "libopenblas-openmp-dev: matrix products on OpenMP threads"
  "libcli11-dev: the command line"
  "libtomlplusplus-dev: TOML files of settings"
  "libfmt-dev: text formatting"
  "nlohmann-json3-dev: JSON"
  "libstb-dev: PNG and JPEG files"
  "zlib1g-dev: gzip and zip files"
  "libssl-dev: checksums of files"
  "libmd4c-dev: the pages of linea lab; without it the rest is built"
)
linea_test_packages=(
  "libgtest-dev: the tests"
  "clang-format: checks the format of the sources"
  "python3: checks the text of the sources"
  "libopenmpi-dev: tests of several processes"
  "openmpi-bin: starts them"
)
linea_check_packages=("clang-tidy: checks the code, with --all")
linea_page_packages=(
  "chromium: the lessons' pages in a browser, with --all"
  "chromium-driver: drives it"
  "poppler-utils: reads what they print"
  "fonts-noto-cjk: letters of their sources"
)

say() { printf '\n== %s\n' "$*"; }

install_missing() { # "package: why" ...
  local entry package missing=()
  if ! command -v dpkg-query >/dev/null; then
    echo "This system has no dpkg (Debian, Ubuntu). Install these packages or their equivalents:"
    printf '  %s\n' "$@"
    return 0
  fi
  for entry in "$@"; do
    package=${entry%%:*}
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' && continue
    missing+=("$package")
    [ ${#missing[@]} -gt 1 ] || say "Installing missing packages"
    echo "  $entry"
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Run this as root once: apt-get install ${missing[*]}"; return 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q >/tmp/linea-apt.$$ 2>&1 &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
      "${missing[@]}" >>/tmp/linea-apt.$$ 2>&1 || {
      tail -n 20 /tmp/linea-apt.$$
      echo "Installation failed: see the messages above."
      return 1
    }
  rm -f /tmp/linea-apt.$$
}

build() { # preset, targets... ; EXTRA: additional cmake options
  local preset=$1
  shift
  cmake --preset "$preset" "${EXTRA[@]}" >"/tmp/linea-cmake.$$" 2>&1 || {
    cat "/tmp/linea-cmake.$$"
    return 1
  }
  rm -f "/tmp/linea-cmake.$$"
  cmake --build --preset "$preset" --target "$@"
}

run_tests() { # build folder, ctest options...
  local folder=$1
  shift
  # One more than there are cores: some wait for the disk.
  ctest --test-dir "build/$folder" --output-on-failure --no-tests=error -j "$(($(nproc) + 1))" "$@" |
    grep -vE '^ *(Start|[0-9]+/[0-9]+ Test .* Passed)'
  local log=build/$folder/Testing/Temporary/LastTest.log
  echo "$(grep -acE '^\[  SKIPPED \] .* \([0-9]* ms\)|^Skipped: ' "$log" || true) tests were skipped in this build, and why:"
  { grep -aE -A1 ': Skipped$' "$log" | grep -avE '^--|: Skipped$'; sed -n 's/^Skipped: //p' "$log"; } | sort | uniq -c || true
}
