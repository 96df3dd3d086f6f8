// Random MPI programs against a serial oracle: thousands of them in one launch, each by 2 to 8 ranks of it.
//
//   programs_test-<mpi> [--programs N] [--seconds S] [--seed N] [--steps N,N,...] [--class NAME] [--at-least N]
//                       [--patience S] [--layout flat|interval]
//
// --seed replays one program, or starts a run of several; --steps picks some of its steps; --class names what every program
// must contain; --at-least demands so many programs of each class; --patience is how long a program may take. A program
// that fails is listed, shrunk and listed again.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "programs/runner.h"

namespace stridio::testing {
namespace {

struct Options {
  long programs = 0, seconds = 0, at_least = 0, patience = 60;
  std::uint64_t seed = 0;
  bool intervals = false;
  std::vector<int> steps;  // empty: all
  std::size_t wanted = kinds().size();
};

class Launch {
 public:
  Launch(Options options, std::string replay);
  int run();

 private:
  // By all ranks together; whether all is well.
  bool passes(const Program& program, int tries);
  void run_once(const Program& program);
  Program shrunk(Program program);
  void show(const char* title, const Program& program, bool whole) const;
  bool table_is_full() const;
  bool first() const { return rank_ == 0; }

  Options options_;
  std::string replay_;
  int rank_ = 0, ranks_ = 0;
  std::string path_;
  Board& board_;
  std::vector<MPI_Comm> communicators_;  // of the first 2, 3, ... ranks
  std::set<std::string> called_;         // by the program that ran last
  std::map<std::string, long> counts_;
};

// All but the seed.
std::string replay_command() {
  const char* preload = std::getenv("LD_PRELOAD");
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::string command = "mpiexec -n " + std::to_string(ranks);
  if (preload != nullptr) {
#if defined(OPEN_MPI)
    command += std::string(" -x LD_PRELOAD=") + preload;
#else
    command += std::string(" -genv LD_PRELOAD ") + preload;
#endif
  }
  return command + " " + std::filesystem::canonical("/proc/self/exe").string();
}

std::string class_text(std::size_t wanted) {
  return wanted == kinds().size() ? "" : " --class '" + kinds()[wanted].name + "'";
}

bool contains(const Program& program, const std::string& name) {
  Runner told(program, nullptr);
  told.run();
  return told.called().count(name) != 0;
}

std::string shared_path() {
  std::array<char, 256> path = {};
  const char* folder = std::getenv("TMPDIR");
  const std::string name = folder != nullptr ? folder : std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
  put_text(path, name + "/stridio-programs-" + std::to_string(getpid()));
  MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return path.data();
}

Launch::Launch(Options options, std::string replay)
    : options_(options), replay_(std::move(replay)), path_(shared_path()), board_(shared_board()) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  if (ranks_ < 2 || ranks_ > kMostRanks) {
    std::fprintf(stderr, "run me with 2 to %d ranks\n", kMostRanks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Bcast(&options_.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  for (int count = 2; count <= ranks_; ++count) {
    communicators_.emplace_back();
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &communicators_.back());
  }
  watch(board_, ranks_, static_cast<int>(options_.patience), replay_);
}

void Launch::run_once(const Program& program) {
  meet(board_.program, ranks_);
  if (first()) {
    board_.failed = 0;
    board_.seed = program.seed;
    for (auto& each : board_.ranks) {
      each.failure[0] = '\0';
      put_text(each.step, "no program");
    }
  }
  meet(board_.program, ranks_);
  MPI_Comm comm = rank_ < program.ranks ? communicators_[static_cast<std::size_t>(program.ranks - 2)] : MPI_COMM_NULL;
  if (program.fresh_communicator) {
    const int turned = (rank_ + static_cast<int>(program.seed % kMostRanks)) % ranks_;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < program.ranks ? 0 : MPI_UNDEFINED, turned, &comm);
  }
  if (comm != MPI_COMM_NULL) {
    World world{board_, comm, 0, program.ranks, path_};
    MPI_Comm_rank(comm, &world.rank);
    Runner runner(program, &world);
    runner.run();
    called_ = runner.called();
    if (program.fresh_communicator) MPI_Comm_free(&comm);
  }
  ++board_.beats;
  meet(board_.program, ranks_);
}

bool Launch::passes(const Program& program, int tries) {
  for (; tries > 0; --tries) {
    run_once(program);
    if (board_.failed != 0) return false;
  }
  return true;
}

// Drops steps, halves first, for as long as what is left still fails.
Program Launch::shrunk(Program program) {
  int left = 300;
  for (std::size_t size = (program.steps.size() + 1) / 2; size > 0; size /= 2) {
    for (std::size_t begin = 0; begin < program.steps.size();) {
      if (--left == 0) return program;
      Program shorter = program;
      const auto from = shorter.steps.begin() + static_cast<std::ptrdiff_t>(begin);
      shorter.steps.erase(from, from + static_cast<std::ptrdiff_t>(std::min(size, program.steps.size() - begin)));
      if (passes(shorter, 2)) {
        begin += size;
      } else {
        program = std::move(shorter);
      }
    }
  }
  return program;
}

void Launch::show(const char* title, const Program& program, bool whole) const {
  if (!first()) return;
  Runner told(program, nullptr);
  told.run();
  std::printf("%s: seed %llu, %d ranks\n%s", title, static_cast<unsigned long long>(program.seed), program.ranks,
              told.listing().c_str());
  for (std::size_t r = 0; r < static_cast<std::size_t>(program.ranks); ++r)
    if (board_.ranks[r].failure[0] != '\0') std::printf("FAILED: rank %zu, %s\n", r, board_.ranks[r].failure.data());
  std::string steps;
  if (!whole)
    for (const Step& step : program.steps) steps += (steps.empty() ? " --steps " : ",") + std::to_string(step.number);
  std::printf("replay: %s --programs 1 --seed %llu%s\n", replay_.c_str(), static_cast<unsigned long long>(program.seed),
              steps.c_str());
  std::fflush(stdout);
}

bool Launch::table_is_full() const {
  bool full = true;
  for (const auto& [name, count] : counts_) {
    std::printf("%8ld  %s%s\n", count, name.c_str(), count < options_.at_least ? "  (too few)" : "");
    full = full && count >= options_.at_least;
  }
  return full;
}

int Launch::run() {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  for (const Kind& kind : kinds()) {
    counts_[kind.name] = 0;
    if (kind.form.mode == Mode::kSplit) counts_[kind.form.end_name()] = 0;
  }
  if (first()) std::printf("from seed %llu on\n", static_cast<unsigned long long>(options_.seed));
  std::fflush(stdout);
  long done = 0;
  for (std::uint64_t seed = options_.seed;; ++seed) {
    Program program = random_program(seed, ranks_, options_.wanted);
    program.intervals = options_.intervals;
    if (!options_.steps.empty())
      std::erase_if(program.steps, [&](const Step& step) {
        return std::find(options_.steps.begin(), options_.steps.end(), step.number) == options_.steps.end();
      });
    if (options_.wanted < kinds().size() && !contains(program, kinds()[options_.wanted].name)) continue;
    if (!passes(program, options_.programs == 1 ? 20 : 1)) {
      show("A program fails", program, options_.steps.empty());
      const Program shorter = shrunk(program);
      passes(shorter, 5);
      show("Shrunk", shorter, false);
      return 1;
    }
    for (const std::string& name : called_) ++counts_[name];
    ++done;
    if (first()) {
      const long passed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began).count();
      board_.go_on =
          (options_.programs == 0 || done < options_.programs) && (options_.seconds == 0 || passed < options_.seconds);
    }
    meet(board_.program, ranks_);
    if (board_.go_on == 0) break;
  }
  if (!first()) return 0;
  const bool full = table_is_full();
  std::printf("%ld programs, no difference, %.1f s\n", done,
              std::chrono::duration<double>(Clock::now() - began).count());
  return full ? 0 : 1;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    const char* value = argv[i + 1];
    if (name == "--programs")
      options.programs = std::atol(value);
    else if (name == "--seconds")
      options.seconds = std::atol(value);
    else if (name == "--at-least")
      options.at_least = std::atol(value);
    else if (name == "--patience")
      options.patience = std::atol(value);
    else if (name == "--seed")
      options.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--layout" && (std::strcmp(value, "flat") == 0 || std::strcmp(value, "interval") == 0))
      options.intervals = *value == 'i';
    else if (name == "--steps")
      for (const char* at = value; *at != '\0'; at += *at == ',')
        options.steps.push_back(static_cast<int>(std::strtol(at, const_cast<char**>(&at), 10)));
    else if (name == "--class") {
      for (options.wanted = 0; options.wanted < kinds().size(); ++options.wanted)
        if (kinds()[options.wanted].name == value) break;
      if (options.wanted == kinds().size()) return false;
    } else
      return false;
  }
  if (options.programs == 0 && options.seconds == 0) options.programs = 1;
  return true;
}

}  // namespace
}  // namespace stridio::testing

int main(int argc, char** argv) {
  using namespace stridio::testing;
  Options options;
  options.seed = std::random_device()() % 1'000'000'000;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (!parse(argc, argv, options)) {
    std::fprintf(
        stderr,
        "%s [--programs N] [--seconds S] [--seed N] [--steps N,...] [--class NAME] [--at-least N] [--patience S] "
        "[--layout flat|interval]\n",
        argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int result = 0;
  {
    Launch launch(options,
                  replay_command() + class_text(options.wanted) + (options.intervals ? " --layout interval" : ""));
    result = launch.run();
  }
  MPI_Bcast(&result, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  return result;
}
