#define _GNU_SOURCE
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const calls[CALLS] = {"limit", "collective", "independent", "pieces", "open"};

static const char usage[] =
    "usage: mpiexec -n RANKS PROGRAM --workload NAME --path FILE [OPTIONS]\n"
    "  --workload NAME      one of the workloads below\n"
    "  --path FILE          made anew for each write; FILE.limit and FILE.first are made too\n"
    "  --size N --extra N   the workload's parameters\n"
    "  --methods LIST       of limit, collective, independent, pieces, open (the first three)\n"
    "                       limit: the same bytes of each rank in one piece by pwrite or pread\n"
    "                       pieces: one call a piece; open: only open and close\n"
    "                       METHOD:HINT...: with hints of its own; one without `KEY=` is the\n"
    "                       value of stridio_method, as in collective:two_phase\n"
    "  --directions LIST    of write, read (both)\n"
    "  --repetitions N      of each measurement (1)\n"
    "  --max-pieces N       `pieces` ends after so many calls a rank (4096); 0: all\n"
    "  --hint KEY=VALUE     for MPI_File_open and MPI_File_set_view; may be repeated\n"
    "  --seed N             of random places and of the data (1)\n"
    "  --verify             check every byte instead of measuring\n"
    "  --skip-holes         with --verify: not those that nobody writes\n"
    "  --counts FILE        counters of the storage, printed with each measurement\n"
    "  --list               print the workloads and their parameters as JSON lines\n";

static void finish(int status) {
  fflush(NULL);
  MPI_Finalize();
  exit(status);
}

static void refuse(const char* what, const char* value) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) fprintf(stderr, "%s: %s\n%s", what, value, usage);
  finish(2);
}

static void print_workloads(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < workload_count && rank == 0; ++i) {
    const struct workload* w = &workloads[i];
    printf("{\"workload\": \"%s\", \"size\": %ld, \"size_is\": \"%s\"", w->name, w->size, w->size_is);
    if (w->extra_is) printf(", \"extra\": %ld, \"extra_is\": \"%s\"", w->extra, w->extra_is);
    printf(", \"square\": %s}\n", w->square ? "true" : "false");
  }
  finish(0);
}

static long number(const char* text, long minimum) {
  char* end;
  const long value = strtol(text, &end, 10);
  if (end == text || *end || value < minimum) refuse("not a number that fits here", text);
  return value;
}

static int index_of(const char* name, const char* const* names, int count) {
  for (int i = 0; i < count; ++i)
    if (strcmp(name, names[i]) == 0) return i;
  refuse("unknown", name);
  return -1;
}

/* Cuts a list at its commas. */
static int cut_list(char* list, char** words, int limit) {
  int count = 0;
  for (char* rest = list; rest;) {
    char* word = strsep(&rest, ",");
    if (count == limit) refuse("too many in the list", word);
    words[count++] = word;
  }
  return count;
}

static void parse_directions(char* list, struct options* options) {
  static const char* const directions[] = {"read", "write"};
  char* words[2];
  options->direction_count = cut_list(list, words, 2);
  for (int i = 0; i < options->direction_count; ++i) options->directions[i] = index_of(words[i], directions, 2);
}

static void set_hint(MPI_Info* hints, const char* key, const char* value) {
  if (*hints == MPI_INFO_NULL) MPI_Info_create(hints);
  MPI_Info_set(*hints, key, value);
}

static void parse_hint(char* hint, MPI_Info* hints) {
  char* value = strchr(hint, '=');
  if (!value) refuse("not KEY=VALUE", hint);
  *value++ = '\0';
  set_hint(hints, hint, value);
}

/* CALL, or CALL:HINT:HINT..., after all options: `options` has the hints of all methods. */
static struct method parse_method(const char* name, const struct options* options) {
  char* rest = strdup(name);
  char* const copy = rest;
  struct method method = {.name = strdup(name), .hints = MPI_INFO_NULL};
  if (options->hints != MPI_INFO_NULL) MPI_Info_dup(options->hints, &method.hints);
  method.call = (enum call)index_of(strsep(&rest, ":"), calls, CALLS);
  while (rest) {
    char* hint = strsep(&rest, ":");
    if (strchr(hint, '='))
      parse_hint(hint, &method.hints);
    else
      set_hint(&method.hints, "stridio_method", hint);
  }
  free(copy);
  return method;
}

static void parse_methods(char* list, struct options* options) {
  char* words[MAX_METHODS];
  options->method_count = cut_list(list, words, MAX_METHODS);
  for (int i = 0; i < options->method_count; ++i) options->methods[i] = parse_method(words[i], options);
}

static void parse_option(int option, char* value, char** methods, struct options* options) {
  switch (option) {
    case 'w': options->workload = find_workload(value); break;
    case 'p': options->path = value; break;
    case 's': options->size = number(value, 1); break;
    case 'x': options->extra = number(value, 1); break;
    case 'm': *methods = value; break;
    case 'd': parse_directions(value, options); break;
    case 'r': options->repetitions = (int)number(value, 1); break;
    case 'c': options->max_pieces = number(value, 0); break;
    case 'h': parse_hint(value, &options->hints); break;
    case 'e': options->seed = (uint64_t)number(value, 0); break;
    case 'v': options->verify = 1; break;
    case 'o': options->skip_holes = 1; break;
    case 'n': options->counts = value; break;
    case 'l': print_workloads(); break;
    default: refuse("options", "see below");
  }
}

static const struct option names[] = {
    {"workload", 1, NULL, 'w'},    {"path", 1, NULL, 'p'},       {"size", 1, NULL, 's'},
    {"extra", 1, NULL, 'x'},       {"methods", 1, NULL, 'm'},    {"directions", 1, NULL, 'd'},
    {"repetitions", 1, NULL, 'r'}, {"max-pieces", 1, NULL, 'c'}, {"hint", 1, NULL, 'h'},
    {"seed", 1, NULL, 'e'},        {"verify", 0, NULL, 'v'},     {"counts", 1, NULL, 'n'},
    {"list", 0, NULL, 'l'},        {"skip-holes", 0, NULL, 'o'}, {NULL, 0, NULL, 0},
};

void parse_options(int argc, char** argv, struct options* options) {
  char default_methods[] = "limit,collective,independent";
  char* methods = default_methods;
  int option;
  *options = (struct options){.directions = {1, 0},
                              .direction_count = 2,
                              .repetitions = 1,
                              .max_pieces = 4096,
                              .seed = 1,
                              .hints = MPI_INFO_NULL};
  opterr = 0;
  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) parse_option(option, optarg, &methods, options);
  if (optind < argc) refuse("not an option", argv[optind]);
  if (!options->workload) refuse("--workload", "missing or unknown");
  if (!options->path) refuse("--path", "missing");
  if (!options->size) options->size = options->workload->size;
  if (!options->extra) options->extra = options->workload->extra;
  parse_methods(methods, options);
}

void free_options(struct options* options) {
  for (int i = 0; i < options->method_count; ++i) {
    free(options->methods[i].name);
    if (options->methods[i].hints != MPI_INFO_NULL) MPI_Info_free(&options->methods[i].hints);
  }
  if (options->hints != MPI_INFO_NULL) MPI_Info_free(&options->hints);
}
