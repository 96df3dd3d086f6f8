/* The FLASH checkpoint through PnetCDF: one variable after another, collectively, straight from the
 * blocks by a noncontiguous MPI datatype. */
#include <pnetcdf.h>

#include "flash.h"

static void check(int error, const char* what) {
  if (error != NC_NOERR) flash_fail(what, ncmpi_strerror(error));
}

/* The inner cells of one variable in memory, seen from unk[0][0][0][0][variable]. */
static MPI_Datatype inner_cells(const struct flash* mesh) {
  int shape[5] = {(int)mesh->blocks, FLASH_SIDE, FLASH_SIDE, FLASH_SIDE, FLASH_VARIABLES};
  int start[5] = {0, FLASH_GUARD, FLASH_GUARD, FLASH_GUARD, 0};
  int count[5] = {(int)mesh->blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS, 1};
  MPI_Datatype type;
  MPI_Type_create_subarray(5, shape, count, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

static int open_file(const char* path, MPI_Comm comm) {
  int file;
  check(ncmpi_open(comm, path, NC_NOWRITE, MPI_INFO_NULL, &file), path);
  return file;
}

static long count_blocks(const char* path, MPI_Comm comm) {
  int file = open_file(path, comm), dimension;
  MPI_Offset blocks;
  check(ncmpi_inq_dimid(file, "block", &dimension), "dimension block");
  check(ncmpi_inq_dimlen(file, dimension, &blocks), "dimension block");
  check(ncmpi_close(file), path);
  return (long)blocks;
}

static void write_checkpoint(const char* path, const struct flash* mesh) {
  static const char* const axes[4] = {"block", "z", "y", "x"};
  const MPI_Offset shape[4] = {mesh->total_blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS};
  const MPI_Offset start[4] = {mesh->first_block, 0, 0, 0};
  const MPI_Offset count[4] = {mesh->blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS};
  int file, dimensions[4], variables[FLASH_VARIABLES];
  check(ncmpi_create(mesh->comm, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file), path);
  for (int axis = 0; axis < 4; ++axis)
    check(ncmpi_def_dim(file, axes[axis], shape[axis], &dimensions[axis]), axes[axis]);
  for (int variable = 0; variable < FLASH_VARIABLES; ++variable) {
    const char* name = flash_variable_names[variable];
    check(ncmpi_def_var(file, name, NC_DOUBLE, 4, dimensions, &variables[variable]), name);
  }
  check(ncmpi_enddef(file), "end of the definitions");
  MPI_Datatype cells = inner_cells(mesh);
  for (int variable = 0; variable < FLASH_VARIABLES; ++variable)
    check(ncmpi_put_vara_all(file, variables[variable], start, count, &mesh->unk[0][0][0][0][variable], 1, cells),
          flash_variable_names[variable]);
  MPI_Type_free(&cells);
  check(ncmpi_close(file), path);
}

static void read_checkpoint(const char* path, struct flash* mesh) {
  const MPI_Offset start[4] = {mesh->first_block, 0, 0, 0};
  const MPI_Offset count[4] = {mesh->blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS};
  int file = open_file(path, mesh->comm);
  MPI_Datatype cells = inner_cells(mesh);
  for (int variable = 0; variable < FLASH_VARIABLES; ++variable) {
    const char* name = flash_variable_names[variable];
    int id;
    check(ncmpi_inq_varid(file, name, &id), name);
    check(ncmpi_get_vara_all(file, id, start, count, &mesh->unk[0][0][0][0][variable], 1, cells), name);
  }
  MPI_Type_free(&cells);
  check(ncmpi_close(file), path);
}

int main(int argc, char** argv) {
  const struct flash_format pnetcdf = {count_blocks, write_checkpoint, read_checkpoint};
  return flash_main(argc, argv, &pnetcdf);
}
