#!/bin/sh
# Puts pgbouncer into .tools/pgbouncer for the tests, from the package mirror of this machine and without installing
# anything. Done once. Where it cannot be had (no Debian, no network) this says so and succeeds: the tests that need it skip.
set -eu
cd "$(dirname "$0")/../.."
tools=$PWD/.tools
if [ -x "$tools/pgbouncer/usr/sbin/pgbouncer" ] || PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null; then
  exit 0
fi

apt() { # from the lists that the options name
  timeout 60 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 "$@"
}

fetch() { # pgbouncer and the libraries it is linked with, into the current folder
  libraries=$(apt-cache "$@" depends pgbouncer | sed -n 's/^ *Depends: \(lib.*\)/\1/p' | grep -vx libc6)
  # shellcheck disable=SC2086
  apt "$@" download pgbouncer $libraries
}

get() {
  mkdir -p "$new/lists/partial" "$new/cache" "$new/debs" "$new/pgbouncer"
  cd "$new/debs"
  # The machine's lists may be missing or old; then newer ones are read, beside them.
  set -- -o "Dir::State::Lists=$new/lists" -o "Dir::Cache=$new/cache"
  fetch || { apt "$@" update && fetch "$@"; } || return
  for package in *.deb; do
    dpkg -x "$package" "$new/pgbouncer" || return
  done
  rm -rf "$tools/pgbouncer"
  mv "$new/pgbouncer" "$tools/pgbouncer"
}

new=$tools/new.$$
if ! (get) >/dev/null 2>&1; then
  echo "pgbouncer is not here and could not be fetched: tests of poolers will skip" >&2
fi
rm -rf "$new"
