#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>

/* Synced before it is closed, as all that is compared. */
#define H5Fclose(file) (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 ? -1 : H5Fclose(file))
#define main example_main
#include "../../examples/flash_hdf5.c"
#undef main
#include "library.h"
