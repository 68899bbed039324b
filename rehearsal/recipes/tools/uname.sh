#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated uname: the model's kernel release and this host's name.
release=$(cat "${0%/*}/../out/uname.txt")
case "$*" in
    "-r" | "--kernel-release") echo "$release" ;;
    "-a" | "--all") echo "Linux $(/bin/uname -n) $release $(/bin/uname -v) $(/bin/uname -m) GNU/Linux" ;;
    *) exec /bin/uname "$@" ;;
esac
