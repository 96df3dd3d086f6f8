#include "preload.h"

#include <fmt/format.h>

namespace stridio {

namespace fs = std::filesystem;

namespace {

const char* const kSeparators = " \t\n:";

std::string linked_text(const FoundProgram& program) {
  return fmt::format("{} is linked against {}", program.path, family_of(program.linked.mpi).title);
}

bool same_implementation(Mpi launcher, Mpi program) { return (launcher == Mpi::kOmpi) == (program == Mpi::kOmpi); }

std::string mismatch(const std::optional<Launcher>& launcher, const FoundProgram& program) {
  if (!launcher || same_implementation(launcher->mpi, program.linked.mpi)) return "";
  return fmt::format("{}, but {} belongs to {}: the ranks may not find each other", linked_text(program),
                     launcher->program, family_of(launcher->mpi).title);
}

// Where libmpi is looked for when the family is known and the user named no file.
std::optional<fs::path> find_libmpi(Mpi mpi, const std::optional<FoundProgram>& program, const std::string& command) {
  if (program && program->linked.mpi == mpi && !program->linked.libmpi.empty()) return program->linked.libmpi;
  if (const auto found = libmpi_in_environment(command, mpi)) return found;
  return libmpi_beside(command, mpi);
}

Result<HostMpi> with_libmpi(Mpi mpi, const std::optional<FoundProgram>& program, const std::string& command,
                            std::string warning) {
  if (const auto libmpi = find_libmpi(mpi, program, command)) return HostMpi{mpi, *libmpi, std::move(warning)};
  return fail(Code::kNoSuchFile, fmt::format("found no library of {} ({}) for {}", family_of(mpi).title,
                                             fmt::join(family_of(mpi).sonames, ", "), command));
}

Result<HostMpi> from_choice(const MpiChoice& choice, const std::optional<FoundProgram>& program,
                            const std::string& command) {
  const auto mpi = choice.mpi ? choice.mpi : mpi_by_soname(choice.libmpi->filename().string());
  if (!mpi)
    return fail(Code::kArgument,
                fmt::format("cannot tell by its name whose library {} is: add --mpi", choice.libmpi->string()));
  if (!choice.libmpi) return with_libmpi(*mpi, program, command, "");
  std::error_code error;
  const fs::path libmpi = fs::canonical(choice.libmpi->parent_path() / ".", error) / choice.libmpi->filename();
  if (error || !fs::is_regular_file(libmpi, error))
    return fail(Code::kNoSuchFile, "there is no library " + choice.libmpi->string());
  return HostMpi{*mpi, libmpi, ""};
}

Result<HostMpi> from_environment(const std::string& command) {
  const auto mpich = libmpi_in_environment(command, Mpi::kMpich);
  const auto ompi = libmpi_in_environment(command, Mpi::kOmpi);
  if (mpich && ompi)
    return fail(Code::kUnsupportedOperation, "the Python environment of " + command + " holds both MPICH and Open MPI");
  if (mpich) return HostMpi{Mpi::kMpich, *mpich, ""};
  if (ompi) return HostMpi{Mpi::kOmpi, *ompi, ""};
  return fail(Code::kUnsupportedOperation,
              command +
                  " is neither a launcher that Stridio knows, nor linked against an MPI, nor in a "
                  "Python environment that has one");
}

Result<fs::path> link_folder(const fs::path& library, const Environment& environment,
                             std::optional<TemporaryFolder>& links) {
  if (!links) {
    const bool usable = environment.temporary.find_first_of(kSeparators) == std::string::npos;
    ASSIGN_OR_RETURN(auto folder, TemporaryFolder::create((usable ? environment.temporary : "/tmp") + "/stridio-"));
    links.emplace(std::move(folder));
  }
  for (int i = 0;; ++i) {
    const fs::path link = links->path() / std::to_string(i);
    std::error_code error;
    fs::create_directory_symlink(library.parent_path(), link, error);
    if (!error) return link / library.filename();
    if (error != std::errc::file_exists) return fail_errno(error.value(), "cannot create a link", link);
  }
}

}  // namespace

Result<HostMpi> choose_mpi(const MpiChoice& choice, const std::optional<Launcher>& launcher,
                           const std::optional<FoundProgram>& program, const std::string& command) {
  if (choice.mpi || choice.libmpi) return from_choice(choice, program, command);
  if (program) return with_libmpi(program->linked.mpi, program, command, mismatch(launcher, *program));
  if (launcher) return with_libmpi(launcher->mpi, program, command, "");
  return from_environment(command);
}

Result<fs::path> library_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail_errno(error.value(), "cannot find this command's own path", "/proc/self/exe");
  const fs::path folder = fs::canonical(self.parent_path() / ".." / "lib", error);
  if (error) return fail_errno(error.value(), "there is no folder of libraries beside this command", self);
  return folder;
}

Result<fs::path> libstridio_for(Mpi mpi) {
  ASSIGN_OR_RETURN(const fs::path folder, library_folder());
  const fs::path library = folder / fmt::format("libstridio-{}.so", family_of(mpi).name);
  std::error_code ignored;
  if (fs::exists(library, ignored)) return library;
  return fail(Code::kNoSuchFile,
              fmt::format("Stridio is not built for {}: there is no {}", family_of(mpi).title, library.string()));
}

Result<std::string> preload_value(const std::vector<fs::path>& libraries, const Environment& environment,
                                  std::optional<TemporaryFolder>& links) {
  std::string value = environment.ld_preload;
  for (const fs::path& library : libraries) {
    fs::path path = library;
    if (library.string().find_first_of(kSeparators) != std::string::npos) {
      ASSIGN_OR_RETURN(path, link_folder(library, environment, links));
    }
    if (!value.empty()) value += ':';
    value += path.string();
  }
  if (!environment.preload_extra.empty()) value += ":" + environment.preload_extra;
  return value;
}

}  // namespace stridio
