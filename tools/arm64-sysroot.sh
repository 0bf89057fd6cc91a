# Sourced after setup.sh by tools that build for ARM64: unpacks its libraries into the folder $sysroot, unless they are
# there. LINEA_SYSROOT names another folder than build/arm64-sysroot, LINEA_MIRROR another mirror of Debian. The list
# $sysroot/files has a line for each file: package, version, path.

sysroot=${LINEA_SYSROOT:-$PWD/build/arm64-sysroot}

unpack_libraries() {
  local apt=$PWD/build/arm64-apt package packages=(libc6-dev libgtest-dev libstdc++-12-dev) private=()
  rm -rf "$sysroot" "$apt"
  mkdir -p "$sysroot" "$apt"/{lists,archives}/partial
  : >"$apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${LINEA_MIRROR:-http://deb.debian.org/debian} bookworm main" \
    >"$apt/sources.list"
  private=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::status="$apt/status"
    -o Dir::Cache="$apt" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=
    -o Acquire::Languages=none)
  for package in "${linea_packages[@]%%:*}"; do
    [[ $package != *-dev ]] || packages+=("$package")
  done
  apt-get "${private[@]}" update >"$apt/log"
  apt-get "${private[@]}" install -y --download-only --no-install-recommends "${packages[@]}" >>"$apt/log"
  for package in "$apt"/archives/*.deb; do
    dpkg -x "$package" "$sysroot"
    dpkg-deb --fsys-tarfile "$package" | tar -t |
      sed -n "s|^\./\(.*[^/]\)$|$(dpkg-deb -W --showformat '${Package} ${Version}' "$package") /\1|p" >>"$apt/files"
  done
  # Links to /lib are read from the root folder of this machine; relative ones also hold where the folder is moved.
  find "$sysroot" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link to; do
    ln -srnf "$sysroot$to" "$link"
  done
  mv "$apt/files" "$sysroot/files"  # at last, as a sign that all is there
}

if [ ! -f "$sysroot/files" ]; then
  say "Libraries for ARM64"
  unpack_libraries
fi
