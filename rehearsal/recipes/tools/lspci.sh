#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated lspci.
out=${0%/*}/../out
case "$*" in
    "-Dnn" | "-nnD" | "-D -nn" | "-nn -D") cat "$out/lspci.txt" ;;
    "-Dnnvvv -d ::0604") cat "$out/bridges.txt" ;;
    "-nn") sed 's/^0000://' "$out/lspci.txt" ;;
    "-D") sed 's/ \[[0-9a-f]*\]:/:/; s/ \[[0-9a-f]*:[0-9a-f]*\]//' "$out/lspci.txt" ;;
    "") sed 's/^0000://; s/ \[[0-9a-f]*\]:/:/; s/ \[[0-9a-f]*:[0-9a-f]*\]//' "$out/lspci.txt" ;;
    *)
        echo "Usage: lspci [<switches>]" >&2
        exit 1
        ;;
esac
