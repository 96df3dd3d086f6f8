/* A program without MPI that loads a plugin which has it, its symbols being nobody else's.
 *   plugin_host PLUGIN PATH */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* const plugin = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  int (*run)(const char*) = (int (*)(const char*))dlsym(plugin, "run_plugin");
  return run == NULL ? 2 : run(argv[2]) != 0;
}
