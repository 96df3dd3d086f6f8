#include <pnetcdf.h>
#include <stdint.h>
#include <stdio.h>

/* Synced before it is closed, as all that is compared. */
#define ncmpi_close(file) (ncmpi_sync(file) != NC_NOERR ? NC_EFILE : ncmpi_close(file))
#define main example_main
#include "../../examples/flash_pnetcdf.c"
#undef main
#include "library.h"
