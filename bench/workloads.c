#include <stdlib.h>
#include <string.h>

#include "workload.h"

/* -------------------------------------------------------------------------- boxes and pieces ---
 */

static void* allocate(size_t count, size_t size) {
  void* memory = calloc(count ? count : 1, size);
  if (!memory) abort();
  return memory;
}

static void make_boxes(struct share* share, int count) {
  share->boxes = count;
  share->box = allocate((size_t)count, sizeof *share->box);
}

static void set_dimension(struct box* box, int dimension, int64_t size, int64_t start, int64_t count) {
  box->file_size[dimension] = size;
  box->file_start[dimension] = start;
  box->count[dimension] = box->memory_size[dimension] = count;
}

static int64_t product(const int64_t* factors, int count) {
  int64_t result = 1;
  for (int i = 0; i < count; ++i) result *= factors[i];
  return result;
}

static int64_t box_bytes(const struct box* box) { return product(box->count, box->dimensions) * box->element; }

/* The offset of an element, relative to its array. */
static int64_t element_offset(const struct box* box, const int64_t* size, const int64_t* start, const int64_t* index) {
  int64_t offset = 0;
  for (int d = 0; d < box->dimensions; ++d) offset = offset * size[d] + start[d] + index[d];
  return offset * box->element;
}

/* Advances all indices but the last one; 0 at the end. */
static int next_row(const struct box* box, int64_t* index) {
  for (int d = box->dimensions - 2; d >= 0; --d) {
    if (++index[d] < box->count[d]) return 1;
    index[d] = 0;
  }
  return 0;
}

static void box_pieces(const struct box* box, piece_visitor* visit, void* context) {
  int64_t index[MAX_DIMENSIONS] = {0};
  const int64_t row = box->count[box->dimensions - 1] * box->element;
  if (box_bytes(box) == 0) return;
  do {
    visit(context, box->memory_base + element_offset(box, box->memory_size, box->memory_start, index),
          box->file_base + element_offset(box, box->file_size, box->file_start, index), row);
  } while (next_row(box, index));
}

static void boxes_pieces(const struct share* share, piece_visitor* visit, void* context) {
  for (int i = 0; i < share->boxes; ++i) box_pieces(&share->box[i], visit, context);
}

/* ------------------------------------------------------------------------------ MPI datatypes ---
 */

static MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

/* Frees the old type. */
static MPI_Datatype resized(MPI_Datatype type, int64_t extent) {
  MPI_Datatype result;
  MPI_Type_create_resized(type, 0, (MPI_Aint)extent, &result);
  MPI_Type_free(&type);
  return result;
}

static MPI_Datatype hvector(int64_t count, int64_t stride, MPI_Datatype type, int free_type) {
  MPI_Datatype result;
  MPI_Type_create_hvector((int)count, 1, (MPI_Aint)stride, type, &result);
  if (free_type) MPI_Type_free(&type);
  return result;
}

static MPI_Datatype subarray(const struct box* box, int of_file, int order, MPI_Datatype element) {
  int size[MAX_DIMENSIONS], start[MAX_DIMENSIONS], count[MAX_DIMENSIONS];
  MPI_Datatype result;
  for (int d = 0; d < box->dimensions; ++d) {
    const int to = order == MPI_ORDER_C ? d : box->dimensions - 1 - d;
    size[to] = (int)(of_file ? box->file_size : box->memory_size)[d];
    start[to] = (int)(of_file ? box->file_start : box->memory_start)[d];
    count[to] = (int)box->count[d];
  }
  if (box_bytes(box) == 0)
    MPI_Type_contiguous(0, element, &result);
  else
    MPI_Type_create_subarray(box->dimensions, size, count, start, order, element, &result);
  return result;
}

/* One subarray a box, relative to the first box's array; several are held together by a struct. */
static MPI_Datatype subarrays(const struct box* box, int count, int of_file, MPI_Datatype element) {
  if (count == 1) return subarray(box, of_file, MPI_ORDER_C, element);
  MPI_Datatype* types = allocate((size_t)count, sizeof *types);
  MPI_Aint* bases = allocate((size_t)count, sizeof *bases);
  int* ones = allocate((size_t)count, sizeof *ones);
  MPI_Datatype result;
  for (int i = 0; i < count; ++i) {
    types[i] = subarray(&box[i], of_file, MPI_ORDER_C, element);
    bases[i] = (MPI_Aint)(of_file ? box[i].file_base - box->file_base : box[i].memory_base - box->memory_base);
    ones[i] = 1;
  }
  MPI_Type_create_struct(count, ones, bases, types, &result);
  for (int i = 0; i < count; ++i) MPI_Type_free(&types[i]);
  free(types);
  free(bases);
  free(ones);
  return result;
}

static MPI_Datatype element_type(int64_t element) {
  MPI_Datatype type;
  if (element == 4) return MPI_INT;
  if (element == 8) return MPI_DOUBLE;
  MPI_Type_contiguous((int)element, MPI_BYTE, &type); /* the caller's to free */
  return type;
}

static void free_element_type(MPI_Datatype* type) {
  if (*type != MPI_INT && *type != MPI_DOUBLE) MPI_Type_free(type);
}

/* A view of its own for each access: subarrays at the first box's array. */
static void boxes_access(const struct share* share, int index, struct access* access) {
  const int from = index * share->boxes / share->accesses;
  const int to = (index + 1) * share->boxes / share->accesses;
  const struct box* box = &share->box[from];
  MPI_Datatype element = element_type(box->element);
  access->sets_view = 1;
  access->displacement = box->file_base;
  MPI_Type_dup(element, &access->etype);
  access->filetype = subarrays(box, to - from, 1, element);
  access->memory = box->memory_base;
  access->memtype = subarrays(box, to - from, 0, element);
  access->count = 1;
  free_element_type(&element);
}

/* Memory is a plain array of the elements of box 0, all in one access. */
static void set_packed_memory(const struct share* share, MPI_Datatype element, struct access* access) {
  access->sets_view = 1;
  MPI_Type_dup(element, &access->etype);
  MPI_Type_dup(element, &access->memtype);
  access->count = (int)product(share->box->count, share->box->dimensions);
}

/* ------------------------------------------------------------------------------ contiguous --- */

enum { MEBIBYTE = 1 << 20 };

static void plan_contiguous(struct share* share) {
  share->file_bytes = share->size * MEBIBYTE;
  const int64_t start = share->file_bytes * share->rank / share->ranks;
  const int64_t end = share->file_bytes * (share->rank + 1) / share->ranks;
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = 1, .element = 1};
  set_dimension(share->box, 0, share->file_bytes, start, end - start);
  share->memory_bytes = end - start;
}

/* Without a view. */
static void access_contiguous(const struct share* share, int index, struct access* access) {
  (void)index;
  set_packed_memory(share, MPI_BYTE, access);
  MPI_Type_dup(MPI_BYTE, &access->filetype);
  access->sets_view = 0;
  access->offset = share->box->file_start[0];
}

/* ------------------------------------------------------------------------------------- ior --- */

/* As IOR does: many calls without a view, each moves one transfer. A rank's transfers follow each
 * other in the file (`ior`), or those of all ranks take turns (`ior_strided`). */
static void plan_transfers(struct share* share, int takes_turns) {
  const int64_t transfer = share->extra;
  share->accesses = (int)(share->size * MEBIBYTE / (transfer * share->ranks));
  make_boxes(share, share->accesses);
  for (int i = 0; i < share->boxes; ++i) {
    struct box* box = &share->box[i];
    const int64_t place =
        takes_turns ? (int64_t)i * share->ranks + share->rank : (int64_t)share->rank * share->accesses + i;
    *box = (struct box){.dimensions = 1, .element = 1};
    set_dimension(box, 0, transfer, 0, transfer);
    box->file_base = place * transfer;
    box->memory_base = i * transfer;
  }
  share->memory_bytes = share->accesses * transfer;
  share->file_bytes = share->memory_bytes * share->ranks;
}

static void plan_ior(struct share* share) { plan_transfers(share, 0); }
static void plan_ior_strided(struct share* share) { plan_transfers(share, 1); }

static void access_ior(const struct share* share, int index, struct access* access) {
  const struct box* box = &share->box[index];
  MPI_Type_dup(MPI_BYTE, &access->etype);
  MPI_Type_dup(MPI_BYTE, &access->filetype);
  MPI_Type_dup(MPI_BYTE, &access->memtype);
  access->offset = box->file_base;
  access->memory = box->memory_base;
  access->count = (int)box_bytes(box);
}

/* --------------------------------------------------------------- cyclic: one dimension dealt ---
 */

/* The pieces are dealt to the ranks one by one. */
static void deal_pieces(struct share* share, int64_t piece, int64_t pieces) {
  const int64_t rounds = (pieces + share->ranks - 1) / share->ranks;
  const int64_t own = (pieces - share->rank + share->ranks - 1) / share->ranks;
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = 2, .element = piece};
  set_dimension(share->box, 0, rounds, 0, own);
  set_dimension(share->box, 1, share->ranks, share->rank, 1);
  share->file_bytes = pieces * piece;
  share->memory_bytes = own * piece;
}

static void plan_cyclic(struct share* share) {
  deal_pieces(share, share->extra, share->size * MEBIBYTE / share->extra);
}

/* By the number of each rank's pieces, not by their length. */
static void plan_cyclic_pieces(struct share* share) {
  const int64_t pieces = share->extra * share->ranks, piece = share->size * MEBIBYTE / pieces;
  deal_pieces(share, piece ? piece : 1, pieces);
}

/* After a piece of each rank comes a hole: so much of the file, in percent. */
static void plan_holes(struct share* share, int percent) {
  const int64_t piece = share->extra, round = piece * share->ranks;
  const int64_t hole = (int64_t)share->ranks * percent / (100 - percent); /* in pieces */
  const int64_t rounds = share->size * MEBIBYTE > round ? share->size * MEBIBYTE / round : 1;
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = 2, .element = piece};
  set_dimension(share->box, 0, rounds, 0, rounds);
  set_dimension(share->box, 1, share->ranks + hole, share->rank, 1);
  share->file_bytes = ((rounds - 1) * (share->ranks + hole) + share->ranks) * piece;
  share->memory_bytes = rounds * piece;
}

static void plan_holes_50(struct share* share) { plan_holes(share, 50); }
static void plan_holes_75(struct share* share) { plan_holes(share, 75); }
static void plan_holes_95(struct share* share) { plan_holes(share, 95); }

/* The file type is one piece and the room of the others', repeated as often as needed. */
static void access_cyclic(const struct share* share, int index, struct access* access) {
  (void)index;
  const int64_t piece = share->box->element;
  MPI_Datatype element;
  MPI_Type_contiguous((int)piece, MPI_BYTE, &element);
  set_packed_memory(share, element, access);
  access->displacement = share->rank * piece;
  access->filetype = resized(element, share->box->file_size[1] * piece);
}

/* The file type spans the file: a vector of all pieces, of ints where they are that long. */
static void access_interleaved(const struct share* share, int index, struct access* access) {
  (void)index;
  const int64_t piece = share->extra;
  MPI_Datatype element = element_type(piece);
  set_packed_memory(share, element, access);
  access->displacement = share->rank * piece;
  access->filetype = hvector(access->count, share->ranks * piece, element, 0);
  free_element_type(&element);
}

/* --------------------------------------------------------------------------------- columns --- */

/* A matrix whose columns are dealt to the ranks, as many to each. The file holds it row by row, each
 * rank's memory column by column: no two pieces are neighbours in either. */
enum { COLUMN_PIECES = 32768 };

static void plan_columns(struct share* share) {
  const int64_t piece = share->extra, column = COLUMN_PIECES * piece;
  const int own = (int)(share->size / share->ranks ? share->size / share->ranks : 1);
  make_boxes(share, own);
  for (int i = 0; i < own; ++i) {
    struct box* box = &share->box[i];
    *box = (struct box){.dimensions = 2, .element = piece};
    set_dimension(box, 0, COLUMN_PIECES, 0, COLUMN_PIECES);
    set_dimension(box, 1, (int64_t)own * share->ranks, (int64_t)i * share->ranks + share->rank, 1);
    box->memory_size[1] = 1;
    box->memory_base = i * column;
  }
  share->memory_bytes = own * column;
  share->file_bytes = share->memory_bytes * share->ranks;
}

static void access_columns(const struct share* share, int index, struct access* access) {
  (void)index;
  const int64_t piece = share->extra, own = share->boxes, row = own * share->ranks * piece;
  MPI_Datatype element = element_type(piece);
  access->sets_view = 1;
  access->displacement = share->rank * piece;
  MPI_Type_dup(element, &access->etype);
  access->filetype = hvector(COLUMN_PIECES, row, hvector(own, share->ranks * piece, element, 0), 1);
  access->memtype = hvector(COLUMN_PIECES, piece, hvector(own, COLUMN_PIECES * piece, element, 0), 1);
  access->count = 1;
  free_element_type(&element);
}

/* ------------------------------------------------------------------- block2d, dist3d, fortran4d
 * --- */

/* This rank's place in a grid of the ranks, row-major as in MPI_Cart_create and darray. */
static void place_in_grid(const struct share* share, int dimensions, int* grid, int* place) {
  memset(grid, 0, (size_t)dimensions * sizeof *grid);
  MPI_Dims_create(share->ranks, dimensions, grid);
  int rest = share->rank;
  for (int d = dimensions - 1; d >= 0; --d) {
    place[d] = rest % grid[d];
    rest /= grid[d];
  }
}

/* Cuts all dimensions in blocks of one length, the last one shorter (MPI's BLOCK). */
static void plan_blocks(struct share* share, int dimensions, const int64_t* size, int64_t element) {
  int grid[MAX_DIMENSIONS], place[MAX_DIMENSIONS];
  place_in_grid(share, dimensions, grid, place);
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = dimensions, .element = element};
  for (int d = 0; d < dimensions; ++d) {
    const int64_t length = (size[d] + grid[d] - 1) / grid[d];
    const int64_t start = length * place[d] < size[d] ? length * place[d] : size[d];
    const int64_t left = size[d] - start;
    set_dimension(share->box, d, size[d], start, left < length ? left : length);
  }
  share->file_bytes = product(share->box->file_size, dimensions) * element;
  share->memory_bytes = box_bytes(share->box);
}

/* As many rows as give each block the rows asked for; columns fill the file. */
static void plan_block2d(struct share* share) {
  int grid[2], place[2];
  place_in_grid(share, 2, grid, place);
  const int64_t rows = share->extra * grid[0];
  const int64_t columns = share->size * MEBIBYTE / (rows * (int64_t)sizeof(double));
  plan_blocks(share, 2, (const int64_t[]){rows, columns ? columns : 1}, sizeof(double));
}

static void plan_dist3d(struct share* share) {
  plan_blocks(share, 3, (const int64_t[]){share->size, share->size, share->size}, sizeof(int));
}

static void access_dist3d(const struct share* share, int index, struct access* access) {
  int size[3], block[3], all[3], grid[3], place[3];
  (void)index;
  place_in_grid(share, 3, grid, place);
  for (int d = 0; d < 3; ++d) {
    size[d] = (int)share->size;
    block[d] = MPI_DISTRIBUTE_BLOCK;
    all[d] = MPI_DISTRIBUTE_DFLT_DARG;
  }
  set_packed_memory(share, MPI_INT, access);
  MPI_Type_create_darray(share->ranks, share->rank, 3, size, block, all, grid, MPI_ORDER_C, MPI_INT, &access->filetype);
}

/* A lattice of doubles in Fortran's order; the first dimension, which is the fastest, is split. */
static void plan_fortran4d(struct share* share) {
  const int64_t first = share->size;
  const int64_t start = first * share->rank / share->ranks;
  const int64_t end = first * (share->rank + 1) / share->ranks;
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = 4, .element = sizeof(double)};
  for (int d = 0; d < 3; ++d) set_dimension(share->box, d, share->extra, 0, share->extra);
  set_dimension(share->box, 3, first, start, end - start);
  share->file_bytes = product(share->box->file_size, 4) * share->box->element;
  share->memory_bytes = box_bytes(share->box);
}

static void access_fortran4d(const struct share* share, int index, struct access* access) {
  (void)index;
  set_packed_memory(share, MPI_DOUBLE, access);
  access->filetype = subarray(share->box, 1, MPI_ORDER_FORTRAN, MPI_DOUBLE);
}

/* ------------------------------------------------------------------------------------ tile --- */

/* A wall of displays, several frames one after the other. Neighbours overlap; a reader takes all of
 * its tile, a writer leaves the overlap to its right and lower neighbours. */
enum { TILE_WIDTH = 1024, TILE_HEIGHT = 768, TILE_OVERLAP_X = 270, TILE_OVERLAP_Y = 128, PIXEL = 3 };

static int64_t tile_length(const struct share* share, int length, int overlap, int is_last) {
  return share->writing && !is_last ? length - overlap : length;
}

static void plan_tile(struct share* share) {
  int grid[2] = {0, 0}; /* columns first: they are the more */
  MPI_Dims_create(share->ranks, 2, grid);
  const int x = share->rank % grid[0], y = share->rank / grid[0];
  const int step_x = TILE_WIDTH - TILE_OVERLAP_X, step_y = TILE_HEIGHT - TILE_OVERLAP_Y;
  make_boxes(share, 1);
  *share->box = (struct box){.dimensions = 3, .element = PIXEL};
  set_dimension(share->box, 0, share->size, 0, share->size);
  set_dimension(share->box, 1, grid[1] * step_y + TILE_OVERLAP_Y, y * step_y,
                tile_length(share, TILE_HEIGHT, TILE_OVERLAP_Y, y == grid[1] - 1));
  set_dimension(share->box, 2, grid[0] * step_x + TILE_OVERLAP_X, x * step_x,
                tile_length(share, TILE_WIDTH, TILE_OVERLAP_X, x == grid[0] - 1));
  share->file_bytes = product(share->box->file_size, 3) * PIXEL;
  share->memory_bytes = box_bytes(share->box);
}

/* ------------------------------------------------------------------------------------ btio --- */

/* The diagonal multipartition of a cube among q * q ranks: each has q cells, one in each layer, and
 * each layer has one cell of every rank. A grid point is five doubles; cells in memory have ghost
 * points around them. Each dump follows the one before in the file. */
enum { BTIO_VALUES = 5, BTIO_GHOST = 2 };

static int square_root(int square) {
  int root = 1;
  while (root * root < square) ++root;
  return root;
}

static void btio_dimension(struct box* box, int dimension, int64_t size, int cell, int cells) {
  const int64_t start = size * cell / cells, end = size * (cell + 1) / cells;
  set_dimension(box, dimension, size, start, end - start);
  box->memory_size[dimension] = end - start + 2 * BTIO_GHOST;
  box->memory_start[dimension] = BTIO_GHOST;
}

static struct box btio_cell(const struct share* share, int layer, int q) {
  struct box box = {.dimensions = 4, .element = sizeof(double)};
  const int x = (share->rank % q + layer) % q, y = (share->rank / q - layer + q) % q;
  btio_dimension(&box, 0, share->size, layer, q);
  btio_dimension(&box, 1, share->size, y, q);
  btio_dimension(&box, 2, share->size, x, q);
  set_dimension(&box, 3, BTIO_VALUES, 0, BTIO_VALUES);
  return box;
}

static void plan_btio(struct share* share) {
  const int q = square_root(share->ranks);
  const int64_t dump = share->size * share->size * share->size * BTIO_VALUES * 8;
  share->accesses = (int)share->extra;
  share->file_bytes = dump * share->accesses;
  make_boxes(share, share->accesses * q);
  for (int i = 0; i < share->boxes; ++i) {
    struct box* box = &share->box[i];
    *box = btio_cell(share, i % q, q);
    box->file_base = dump * (i / q);
    box->memory_base = share->memory_bytes;
    share->memory_bytes += product(box->memory_size, box->dimensions) * box->element;
  }
}

/* One view for all dumps: it spans one, and is repeated. */
static void access_btio(const struct share* share, int index, struct access* access) {
  boxes_access(share, index, access);
  int64_t own = 0;
  for (int i = 0; i < share->boxes / share->accesses; ++i) own += box_bytes(&share->box[i]);
  access->sets_view = index == 0;
  access->displacement = 0;
  access->offset = index * own / (int64_t)sizeof(double);
}

/* ----------------------------------------------------------------------------------- flash --- */

/* FLASH's files. In memory: blocks with guard cells all around, the variable index fastest. In the
 * file: each variable an array of its own, without guard cells. A checkpoint holds all variables; a
 * plot file holds some as floats, converted before, at the cells' centres or at their corners. */
struct flash {
  int cells, guard; /* on a side of a block */
  int variables, value /* bytes */;
};
static const struct flash checkpoint = {8, 4, 24, 8};
static const struct flash plot_centres = {8, 0, 4, 4};
static const struct flash plot_corners = {9, 0, 4, 4};

static int flash_side(const struct flash* flash) { return flash->cells + 2 * flash->guard; }

/* One variable of this rank's blocks, in the file. */
static int64_t flash_part(const struct share* share, const struct flash* flash) {
  return (int64_t)share->size * flash->cells * flash->cells * flash->cells * flash->value;
}

static struct box flash_variable(const struct share* share, const struct flash* flash, int index) {
  struct box box = {.dimensions = 5, .element = flash->value};
  set_dimension(&box, 0, share->size * share->ranks, share->size * share->rank, share->size);
  for (int d = 1; d < 4; ++d) {
    set_dimension(&box, d, flash->cells, 0, flash->cells);
    box.memory_size[d] = flash_side(flash);
    box.memory_start[d] = flash->guard;
  }
  set_dimension(&box, 4, 1, 0, 1);
  box.memory_size[4] = flash->variables;
  box.memory_start[4] = index;
  box.file_base = index * flash_part(share, flash) * share->ranks;
  return box;
}

static void plan_flash_file(struct share* share, const struct flash* flash) {
  make_boxes(share, flash->variables);
  for (int i = 0; i < share->boxes; ++i) share->box[i] = flash_variable(share, flash, i);
  share->file_bytes = flash_part(share, flash) * share->ranks * flash->variables;
  share->memory_bytes = product(share->box->memory_size, 5) * flash->value;
}

static void plan_flash(struct share* share) { plan_flash_file(share, &checkpoint); }
static void plan_flash_plot(struct share* share) { plan_flash_file(share, &plot_centres); }
static void plan_flash_corners(struct share* share) { plan_flash_file(share, &plot_corners); }

static void plan_flash_calls(struct share* share) {
  plan_flash(share);
  share->accesses = checkpoint.variables;
}

/* One variable of all blocks, from the type of a value: nested vectors, cells innermost. */
static MPI_Datatype flash_memory(const struct share* share, const struct flash* flash, MPI_Datatype value,
                                 int free_value) {
  const int64_t cell = flash->variables * flash->value, side = flash_side(flash);
  MPI_Datatype type = hvector(flash->cells, cell, value, free_value);
  type = hvector(flash->cells, cell * side, type, 1);
  type = hvector(flash->cells, cell * side * side, type, 1);
  return hvector(share->size, cell * side * side * side, type, 1);
}

static void set_flash(const struct share* share, const struct flash* flash, MPI_Datatype basic, int basics_a_value,
                      struct access* access) {
  const int64_t own = flash_part(share, flash), side = flash_side(flash);
  MPI_Datatype value, part;
  MPI_Type_contiguous(basics_a_value, basic, &value);
  MPI_Type_contiguous((int)(own / flash->value), value, &part);
  access->sets_view = 1;
  MPI_Type_dup(basic, &access->etype);
  access->displacement = own * share->rank;
  access->filetype = hvector(flash->variables, own * share->ranks, part, 1);
  access->memory = flash->guard * (1 + side + side * side) * flash->variables * flash->value;
  access->memtype = hvector(flash->variables, flash->value, flash_memory(share, flash, value, 1), 1);
  access->count = 1;
}

static void access_flash(const struct share* share, int index, struct access* access) {
  (void)index;
  set_flash(share, &checkpoint, MPI_DOUBLE, 1, access);
}

static void access_flash_bytes(const struct share* share, int index, struct access* access) {
  (void)index;
  set_flash(share, &checkpoint, MPI_BYTE, 8, access);
}

static void access_flash_plot(const struct share* share, int index, struct access* access) {
  (void)index;
  set_flash(share, &plot_centres, MPI_FLOAT, 1, access);
}

static void access_flash_corners(const struct share* share, int index, struct access* access) {
  (void)index;
  set_flash(share, &plot_corners, MPI_FLOAT, 1, access);
}

/* --------------------------------------------------------------------------------- unstruc --- */

/* Pieces at random places of the file: a permutation of them all is dealt to the ranks. */
static uint64_t next_random(uint64_t* state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Deals 0 .. count - 1 to the ranks in equal parts: which rank has which. */
static int* deal(int64_t count, int ranks, uint64_t seed) {
  int* owner = allocate((size_t)count, sizeof *owner);
  for (int64_t i = 0; i < count; ++i) owner[i] = (int)(i % ranks);
  for (int64_t i = count - 1; i > 0; --i) {
    const int64_t other = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
    const int swapped = owner[i];
    owner[i] = owner[other];
    owner[other] = swapped;
  }
  return owner;
}

static void plan_unstruc(struct share* share) {
  const int64_t piece = share->extra, count = share->size * share->ranks;
  int* owner = deal(count, share->ranks, share->seed);
  share->places = allocate((size_t)share->size, sizeof *share->places);
  for (int64_t i = 0; i < count; ++i)
    if (owner[i] == share->rank) share->places[share->place_count++] = i * piece;
  free(owner);
  share->file_bytes = count * piece;
  share->memory_bytes = share->size * piece;
}

static void pieces_unstruc(const struct share* share, piece_visitor* visit, void* context) {
  for (int64_t i = 0; i < share->place_count; ++i) visit(context, i * share->extra, share->places[i], share->extra);
}

static void access_unstruc(const struct share* share, int index, struct access* access) {
  MPI_Datatype piece;
  MPI_Aint* places = allocate((size_t)share->place_count, sizeof *places);
  (void)index;
  for (int64_t i = 0; i < share->place_count; ++i) places[i] = (MPI_Aint)share->places[i];
  MPI_Type_contiguous((int)share->extra, MPI_BYTE, &piece);
  MPI_Type_create_hindexed_block((int)share->place_count, 1, places, piece, &access->filetype);
  access->sets_view = 1;
  MPI_Type_dup(MPI_BYTE, &access->etype);
  access->memtype = piece;
  access->count = (int)share->place_count;
  free(places);
}

/* ------------------------------------------------------------------------------ the workloads ---
 */

#define SIDE "elements on each side"
#define MIB "MiB in all"
#define PIECE "bytes of a piece"
#define TRANSFER "bytes of a call"
#define PIECES_A_RANK "pieces a rank"
#define BLOCKS "blocks a rank"

const struct workload workloads[] = {
    {"contiguous", MIB, NULL, 128, 0, 0, plan_contiguous, boxes_pieces, access_contiguous},
    {"ior", MIB, TRANSFER, 128, MEBIBYTE, 0, plan_ior, boxes_pieces, access_ior},
    {"ior_strided", MIB, TRANSFER, 128, MEBIBYTE, 0, plan_ior_strided, boxes_pieces, access_ior},
    {"block2d", MIB, PIECES_A_RANK, 128, 2048, 0, plan_block2d, boxes_pieces, boxes_access},
    {"dist3d", SIDE, NULL, 322, 0, 0, plan_dist3d, boxes_pieces, access_dist3d},
    {"fortran4d", "elements on the first side", "on the others", 512, 32, 0, plan_fortran4d, boxes_pieces,
     access_fortran4d},
    {"tile", "frames", NULL, 8, 0, 0, plan_tile, boxes_pieces, boxes_access},
    {"btio", SIDE, "dumps", 128, 4, 1, plan_btio, boxes_pieces, access_btio},
    {"cyclic", MIB, PIECES_A_RANK, 128, 4096, 0, plan_cyclic_pieces, boxes_pieces, access_cyclic},
    {"cyclic4k", MIB, PIECE, 128, 4096, 0, plan_cyclic, boxes_pieces, access_cyclic},
    {"cyclic256", MIB, PIECE, 128, 256, 0, plan_cyclic, boxes_pieces, access_cyclic},
    {"holes50", MIB, PIECE, 32, 4096, 0, plan_holes_50, boxes_pieces, access_cyclic},
    {"holes75", MIB, PIECE, 32, 4096, 0, plan_holes_75, boxes_pieces, access_cyclic},
    {"holes95", MIB, PIECE, 32, 4096, 0, plan_holes_95, boxes_pieces, access_cyclic},
    {"interleaved", MIB, PIECE, 32, 4, 0, plan_cyclic, boxes_pieces, access_interleaved},
    {"columns", "columns", PIECE, 256, 16, 0, plan_columns, boxes_pieces, access_columns},
    {"unstruc", PIECES_A_RANK, PIECE, 262144, 64, 0, plan_unstruc, pieces_unstruc, access_unstruc},
    {"flash", BLOCKS, NULL, 80, 0, 0, plan_flash, boxes_pieces, access_flash},
    {"flash_bytes", BLOCKS, NULL, 80, 0, 0, plan_flash, boxes_pieces, access_flash_bytes},
    {"flash_calls", BLOCKS, NULL, 80, 0, 0, plan_flash_calls, boxes_pieces, boxes_access},
    {"flash_plot", BLOCKS, NULL, 1280, 0, 0, plan_flash_plot, boxes_pieces, access_flash_plot},
    {"flash_corners", BLOCKS, NULL, 1280, 0, 0, plan_flash_corners, boxes_pieces, access_flash_corners},
};
const int workload_count = sizeof workloads / sizeof *workloads;

const struct workload* find_workload(const char* name) {
  for (int i = 0; i < workload_count; ++i)
    if (strcmp(workloads[i].name, name) == 0) return &workloads[i];
  return NULL;
}

void share_plan(struct share* share) {
  share->accesses = 1;
  share->workload->plan(share);
}

void share_free(struct share* share) {
  free(share->box);
  free(share->places);
}

/* ---------------------------------------------------------------------------- merged pieces --- */

struct merge {
  piece_visitor* visit;
  void* context;
  int64_t memory, file, length; /* held back: the next piece may continue it */
};

static void merge_piece(void* context, int64_t memory, int64_t file, int64_t length) {
  struct merge* merge = context;
  if (merge->memory + merge->length == memory && merge->file + merge->length == file) {
    merge->length += length;
    return;
  }
  if (merge->length) merge->visit(merge->context, merge->memory, merge->file, merge->length);
  merge->memory = memory;
  merge->file = file;
  merge->length = length;
}

void share_pieces(const struct share* share, piece_visitor* visit, void* context) {
  struct merge merge = {.visit = visit, .context = context, .memory = -1, .file = -1};
  share->workload->pieces(share, merge_piece, &merge);
  if (merge.length) visit(context, merge.memory, merge.file, merge.length);
}

int64_t share_bytes(const struct share* share) {
  int64_t bytes = share->place_count * share->extra;
  for (int i = 0; i < share->boxes; ++i) bytes += box_bytes(&share->box[i]);
  return bytes;
}

void share_access(const struct share* share, int index, struct access* access) {
  memset(access, 0, sizeof *access);
  share->workload->access(share, index, access);
  access->etype = committed(access->etype);
  access->filetype = committed(access->filetype);
  access->memtype = committed(access->memtype);
}

void access_free(struct access* access) {
  MPI_Type_free(&access->etype);
  MPI_Type_free(&access->filetype);
  MPI_Type_free(&access->memtype);
}
