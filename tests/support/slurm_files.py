# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An scontrol that keeps a file a node and behaves as scontrol.1 says: `state=drain` adds the flag and sets the reason,
`state=resume` takes both away."""

from __future__ import annotations

SCONTROL = """#!/bin/sh
cd "{state}" || exit 1
if [ "$1 $2" = "show nodes" ]; then
  for file in *.state; do "$0" show node "${{file%.state}}"; done
  exit 0
fi
if [ "$1 $2" = "show node" ]; then
  [ -f "$3.state" ] || {{ echo "Node $3 not found"; exit 1; }}
  printf 'NodeName=%s Arch=x86_64\\n   State=%s ThreadsPerCore=1\\n' "$3" "$(cat "$3.state")"
  [ -s "$3.reason" ] && printf '   Reason=%s [root@2026-11-23T08:00:00]\\n' "$(cat "$3.reason")"
  exit 0
fi
node=${{2#nodename=}}
shift 2
for word; do case $word in
  reason=*) printf %s "${{word#reason=}}" > "$node.reason";;
  state=drain) base=$(cut -d+ -f1 "$node.state"); echo "$base+DRAIN" > "$node.state";;
  state=resume) echo IDLE > "$node.state"; : > "$node.reason";;
esac; done
"""
