# shellcheck shell=bash
# Source this before starting MPI programs here: what Open MPI asks of root, more ranks than cores on
# both its versions, and the test MPIs' launchers by absolute path (`mpiexec` on the PATH may be any).
STRIDIO_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export STRIDIO_ROOT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # Open MPI 5
export OMPI_MCA_rmaps_base_oversubscribe=1                  # Open MPI 4.1
export MPIEXEC_MPICH=$STRIDIO_ROOT/.venv/mpich/bin/mpiexec
export MPIEXEC_OMPI=$STRIDIO_ROOT/.venv/ompi/bin/mpiexec
export MPIEXEC_DEBIAN_MPICH=/usr/bin/mpiexec.mpich
export MPIEXEC_DEBIAN_OMPI=/usr/bin/mpiexec.openmpi
