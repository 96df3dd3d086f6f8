/* The FLASH checkpoint through parallel HDF5: one data set a variable, collective transfers, and
 * the rearrangement left to HDF5 by hyperslabs on both sides. */
#include <hdf5.h>

#include "flash.h"

static hid_t checked(hid_t id, const char* what) {
  if (id < 0) flash_fail(what, "HDF5 failed");
  return id;
}

static hid_t parallel_access(MPI_Comm comm) {
  hid_t access = checked(H5Pcreate(H5P_FILE_ACCESS), "file access list");
  checked(H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL), "parallel access");
  return access;
}

static hid_t collective_transfer(void) {
  hid_t transfer = checked(H5Pcreate(H5P_DATASET_XFER), "transfer list");
  checked(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "collective transfer");
  return transfer;
}

/* The whole variable in the file. */
static hid_t variable_space(const struct flash* mesh) {
  const hsize_t shape[4] = {mesh->total_blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS};
  return checked(H5Screate_simple(4, shape, NULL), "file space");
}

/* This rank's blocks of a variable in the file. */
static hid_t selected_in_file(const struct flash* mesh) {
  const hsize_t start[4] = {mesh->first_block, 0, 0, 0};
  const hsize_t count[4] = {mesh->blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS};
  hid_t space = variable_space(mesh);
  checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "selection in the file");
  return space;
}

/* The inner cells of one variable in memory. */
static hid_t selected_in_memory(const struct flash* mesh, int variable) {
  const hsize_t shape[5] = {mesh->blocks, FLASH_SIDE, FLASH_SIDE, FLASH_SIDE, FLASH_VARIABLES};
  const hsize_t start[5] = {0, FLASH_GUARD, FLASH_GUARD, FLASH_GUARD, variable};
  const hsize_t count[5] = {mesh->blocks, FLASH_CELLS, FLASH_CELLS, FLASH_CELLS, 1};
  hid_t space = checked(H5Screate_simple(5, shape, NULL), "memory space");
  checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "selection in memory");
  return space;
}

static hid_t open_file(const char* path, MPI_Comm comm) {
  hid_t access = parallel_access(comm);
  hid_t file = checked(H5Fopen(path, H5F_ACC_RDONLY, access), path);
  H5Pclose(access);
  return file;
}

static long count_blocks(const char* path, MPI_Comm comm) {
  hid_t file = open_file(path, comm);
  hid_t data = checked(H5Dopen2(file, flash_variable_names[0], H5P_DEFAULT), flash_variable_names[0]);
  hid_t space = checked(H5Dget_space(data), "shape of the data set");
  hsize_t shape[4];
  if (H5Sget_simple_extent_ndims(space) != 4) flash_fail(path, "not a FLASH checkpoint");
  checked(H5Sget_simple_extent_dims(space, shape, NULL), "shape of the data set");
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(file);
  return (long)shape[0];
}

static void write_checkpoint(const char* path, const struct flash* mesh) {
  hid_t access = parallel_access(mesh->comm);
  hid_t file = checked(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), path);
  hid_t creation = checked(H5Pcreate(H5P_DATASET_CREATE), "creation list");
  checked(H5Pset_obj_track_times(creation, 0), "no time stamps"); /* equal runs make equal files */
  hid_t transfer = collective_transfer();
  hid_t whole = variable_space(mesh);
  hid_t in_file = selected_in_file(mesh);
  for (int variable = 0; variable < FLASH_VARIABLES; ++variable) {
    const char* name = flash_variable_names[variable];
    hid_t data = checked(H5Dcreate2(file, name, H5T_IEEE_F64LE, whole, H5P_DEFAULT, creation, H5P_DEFAULT), name);
    hid_t in_memory = selected_in_memory(mesh, variable);
    checked(H5Dwrite(data, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, mesh->unk), name);
    H5Sclose(in_memory);
    checked(H5Dclose(data), name);
  }
  H5Sclose(in_file);
  H5Sclose(whole);
  H5Pclose(transfer);
  H5Pclose(creation);
  H5Pclose(access);
  checked(H5Fclose(file), path);
}

static void read_checkpoint(const char* path, struct flash* mesh) {
  hid_t file = open_file(path, mesh->comm);
  hid_t transfer = collective_transfer();
  hid_t in_file = selected_in_file(mesh);
  for (int variable = 0; variable < FLASH_VARIABLES; ++variable) {
    const char* name = flash_variable_names[variable];
    hid_t data = checked(H5Dopen2(file, name, H5P_DEFAULT), name);
    hid_t in_memory = selected_in_memory(mesh, variable);
    checked(H5Dread(data, H5T_NATIVE_DOUBLE, in_memory, in_file, transfer, mesh->unk), name);
    H5Sclose(in_memory);
    H5Dclose(data);
  }
  H5Sclose(in_file);
  H5Pclose(transfer);
  checked(H5Fclose(file), path);
}

int main(int argc, char** argv) {
  const struct flash_format hdf5 = {count_blocks, write_checkpoint, read_checkpoint};
  return flash_main(argc, argv, &hdf5);
}
