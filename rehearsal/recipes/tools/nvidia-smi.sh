#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated nvidia-smi: prints what the cluster model says about this host.
out=${0%/*}/../out
run=${0%/*}/../run
[ -d "$run" ] || run=/run
[ ! -e "$run/gpu-node/loaded" ] || out=$out/loaded

invalid() {
    echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."
    exit 1
}

xml() {
    gzip -dc "$out/nvidia-smi.xml.gz" |
        sed "4s|<timestamp>.*</timestamp>|<timestamp>$(date '+%a %b %e %T %Y')</timestamp>|"
    exit 0
}

query() {
    awk -F '\t' -v wanted="$1" -v format="$2" '
        BEGIN { header = format !~ /noheader/; units = format !~ /nounits/ }
        { unit[$1] = $2; rows = NF - 2; for (i = 3; i <= NF; i++) value[$1, i - 2] = $i }
        END {
            count = split(wanted, names, ",")
            for (i = 1; i <= count; i++) {
                gsub(/^ +| +$/, "", names[i])
                if (!(names[i] in unit)) {
                    printf "Field \"%s\" is not a valid field to query.\n\n", names[i]
                    exit 2
                }
            }
            for (i = 1; header && i <= count; i++)
                printf "%s%s%s", names[i], unit[names[i]] == "" ? "" : " [" unit[names[i]] "]", i < count ? ", " : "\n"
            for (row = 1; row <= rows; row++)
                for (i = 1; i <= count; i++)
                    printf "%s%s%s", value[names[i], row], units && unit[names[i]] != "" ? " " unit[names[i]] : "", \
                        i < count ? ", " : "\n"
        }' "$out/query.tsv"
    exit $?
}

if [ ! -s "$out/gpus.txt" ]; then
    echo "No devices were found"
    exit 6
fi
case "$*" in
    "") cat "$out/nvidia-smi.txt" ;;
    "-q -x" | "-x -q" | "-qx" | "--query --xml-format") xml ;;
    "-L" | "--list-gpus") cat "$out/gpus.txt" ;;
    "topo -m" | "topo --matrix") cat "$out/topo.txt" ;;
    "nvlink -s" | "nvlink --status") cat "$out/nvlink.txt" ;;
    "nvlink -e" | "nvlink --errorcounters") cat "$out/nvlink-errors.txt" ;;
    "--query-gpu=pci.bus_id,utilization.gpu,pcie.link.gen.current,"*" --format=csv") cat "$out/pcie-under-load.csv" ;;
    "--query-gpu="*" --format=csv"*)
        fields=${1#--query-gpu=}
        [ $# -eq 2 ] || invalid
        query "$fields" "${2#--format=}"
        ;;
    *) invalid ;;
esac
