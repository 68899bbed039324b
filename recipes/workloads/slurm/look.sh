# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Says of one node of a job what it calls itself, what it lets lock, and which programs it does not have.
# $1: who asks; then the programs.
owner=$1
shift
name=$(uname -n)
echo "$owner: job $SLURM_JOB_ID has $SLURMD_NODENAME as $name"
echo "gpufleet: locked memory of ${name%%.*} is $(ulimit -l)"
for program in "$@"; do
  command -v "$program" >/dev/null 2>&1 || echo "gpufleet: ${name%%.*} has no $program"
done
