# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Starts a program once for every GPU of the nodes of a job of Slurm, by the mpirun of the first one.
# $1: how many ranks; $2: how many of a node; $3: names of the environment that ranks get, with commas between; then the
# program.
ranks=$1
each=$2
names=$3
shift 3
# mpirun starts one helper a node by srun, whose step gets the CPUs that it asks for and not those of its job (srun.1).
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_ON_NODE:-1}"
passed=
for name in $(echo "$names" | tr ',' ' '); do
  passed="$passed -x $name"
done
# shellcheck disable=SC2086  # names of variables, which have no spaces
exec mpirun --allow-run-as-root -np "$ranks" --map-by "ppr:$each:node" --bind-to numa \
  -mca btl tcp,self -mca pml ob1 -mca coll ^hcoll $passed "$@"
