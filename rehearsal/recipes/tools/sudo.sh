#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated sudo: everybody on a simulated host is root already.
user=root
while [ $# -gt 0 ]; do
    case "$1" in
        -u | --user)
            user=$2
            shift 2
            ;;
        -p | --prompt) shift 2 ;;
        --) shift && break ;;
        -[HSnEik]* | --non-interactive | --set-home | --stdin) shift ;;
        -v | --validate | -l | --list) exit 0 ;;
        -*)
            echo "sudo: invalid option -- '${1#-}'" >&2
            exit 1
            ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || exit 0
if [ "$user" = root ] || [ "$user" = "#0" ]; then
    exec "$@"
fi
exec runuser -u "$user" -- "$@"
