#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated dmidecode: BIOS, system and board.
case "$*" in
    "" | "-t 0,1,2") cat "${0%/*}/../out/dmi.txt" ;;
    *)
        echo "dmidecode: invalid option -- '${1#-}'" >&2
        exit 2
        ;;
esac
