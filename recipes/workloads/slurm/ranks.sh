# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Starts a program once for every GPU of one node, by the mpirun beside it, as job-gang.yaml.j2 does it in a pod.
# $1: how many ranks; $2: names of the environment that ranks get, with commas between; then the program.
set -u
ranks=$1
names=$2
shift 2
# An mpirun that sees a job of Slurm asks Slurm for nodes and starts its helpers by srun, and a rank that sees a step of
# Slurm asks its PMI (Open MPI, FAQ on Slurm). All ranks are here, and the step may be in a container without srun.
for name in $(env | sed -n -e 's/^\(SLURM_[A-Z0-9_]*\)=.*/\1/p' -e 's/^\(PMI[A-Z0-9_]*\)=.*/\1/p'); do
  unset "$name"
done
passed=
for name in $(echo "$names" | tr ',' ' '); do
  passed="$passed -x $name"
done
code=0
# shellcheck disable=SC2086  # names of variables, which have no spaces
mpirun --allow-run-as-root -np "$ranks" --host "localhost:$ranks" --map-by "ppr:$ranks:node" --bind-to numa \
  -mca btl tcp,self -mca pml ob1 -mca coll ^hcoll $passed "$@" || code=$?
# Adapters that cannot register memory print the same words whether it is this limit or not.
if [ "$code" != 0 ]; then
  host=$(uname -n)
  echo "gpufleet: locked memory of ${host%%.*} is $(ulimit -l)"
  for program in mpirun "$1"; do
    command -v "$program" >/dev/null 2>&1 || echo "gpufleet: ${host%%.*} has no $program"
  done
fi
exit "$code"
