#!/bin/sh
# get-packages.sh FOLDER PACKAGE...: puts programs into .tools/FOLDER for the tests, from the package mirror of this machine and without
# installing anything. Done once, and only for what is not on the path. Where they cannot be had (no Debian, no network) this says so
# and succeeds: the tests that need them skip.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.tools folder=$1
shift
[ ! -d "$tools/$folder" ] || exit 0
wanted=
for package; do
  PATH=$PATH:/usr/sbin command -v "$package" >/dev/null || wanted="$wanted $package"
done
[ -n "$wanted" ] || exit 0

apt() { # from the lists that the options name
  timeout 60 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 "$@"
}

fetch() { # the packages, and the libraries that they and those need and that are not installed, into the current folder
  libraries='' found=$wanted
  while [ -n "$found" ]; do
    # shellcheck disable=SC2086
    found=$(apt-cache "$@" depends $found | sed -n 's/^ *Depends: \(lib[^: ]*\).*/\1/p' | sort -u | missing)
    libraries="$libraries $found"
  done
  # shellcheck disable=SC2086
  apt "$@" download $wanted $libraries
}

missing() { # of the packages on standard input, those that are neither installed nor in $libraries
  while read -r package; do
    case " $(echo $libraries) $(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null) " in
      *" $package "* | *" installed "*) ;;
      *) echo "$package" ;;
    esac
  done
}

get() {
  mkdir -p "$new/lists/partial" "$new/cache" "$new/debs" "$new/unpacked"
  cd "$new/debs"
  # The machine's lists may be missing or old; then newer ones are read, beside them.
  set -- -o "Dir::State::Lists=$new/lists" -o "Dir::Cache=$new/cache"
  fetch || { apt "$@" update && fetch "$@"; } || return
  for package in *.deb; do
    dpkg -x "$package" "$new/unpacked" || return
  done
  mv "$new/unpacked" "$tools/$folder"
}

new=$tools/new.$$
if ! (get) >/dev/null 2>&1; then
  echo "$wanted: not here and could not be fetched: tests that need them will skip" >&2
fi
rm -rf "$new"
