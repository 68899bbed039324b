#!/bin/sh
# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A simulated systemctl. What a task starts or stops is kept in /run of the host, as long as the host exists.
kept=/run/gpu-node/services
known=${0%/*}/../out/services.txt
limits=${0%/*}/../out/limits.txt

state_of() {
    unit=${1%.service}
    if [ -e "$kept/$unit" ]; then
        cat "$kept/$unit"
    else
        sed -n "s/^$unit //p" "$known"
    fi
}

keep() {
    state=$1
    shift
    mkdir -p "$kept" || exit 1
    for unit in "$@"; do
        case "$unit" in
            -*) continue ;;
        esac
        if [ -z "$(state_of "$unit")" ]; then
            echo "Failed to operate on unit $unit: Unit ${unit%.service}.service not found." >&2
            exit 5
        fi
        echo "$state" > "$kept/${unit%.service}"
    done
}

verb=$1
[ $# -gt 0 ] && shift
case "$verb" in
    is-active)
        state=$(state_of "$1")
        echo "${state:-inactive}"
        [ "$state" = active ] || exit 3
        ;;
    is-enabled)
        if [ -z "$(state_of "$1")" ]; then
            echo "not-found"
            exit 4
        fi
        echo enabled
        ;;
    show)
        between=
        for unit in "$@"; do
            case "$unit" in
                -*) continue ;;
            esac
            state=$(state_of "$unit")
            load=loaded
            [ -n "$state" ] || load=not-found
            printf '%sId=%s.service\nLoadState=%s\nActiveState=%s\nUnitFileState=enabled\n' \
                "$between" "${unit%.service}" "$load" "${state:-inactive}"
            cat "$limits" 2>/dev/null
            between='
'
        done
        ;;
    start | restart | reload | try-restart) keep active "$@" ;;
    stop) keep inactive "$@" ;;
    enable | disable)
        case " $* " in
            *" --now "*) if [ "$verb" = enable ]; then keep active "$@"; else keep inactive "$@"; fi ;;
        esac
        ;;
    daemon-reload | reset-failed) : ;;
    *)
        echo "Unknown command verb $verb." >&2
        exit 1
        ;;
esac
