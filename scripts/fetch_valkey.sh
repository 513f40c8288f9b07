#!/bin/sh
# Unpacks Debian's backport of Valkey 8.0, the second reference server, under the directory given. Nothing is installed, and
# apt's own lists stay as they are.
set -eu
into=$1
[ "$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null)" = debian ] || { echo "not Debian: no backports to fetch from"; exit 1; }
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "not amd64: the reference runs beside redis-server on a PC"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial"
# The mirror and the keys are those that the machine uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 2>/dev/null | sed -n 1p)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} bookworm-backports main" >"$work/sources.list"
options="-o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$work/lists
    -o Dir::Cache=$work -o Dir::Cache::Archives=$work/archives -o APT::Sandbox::User=root"
echo "Fetching valkey-server, the second reference of the comparison, from ${mirror:-http://deb.debian.org/debian}"
cd "$work"
# shellcheck disable=SC2086 # words
apt-get $options update -qq
# valkey-server is a link to a program of valkey-tools.
# shellcheck disable=SC2086
apt-get $options download -qq valkey-tools valkey-server
rm -rf "$into.new"
for package in "$work"/*.deb; do dpkg -x "$package" "$into.new"; done
"$into.new/usr/bin/valkey-server" --version
rm -rf "$into"
mv "$into.new" "$into"
