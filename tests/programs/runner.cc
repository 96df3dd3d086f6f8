#include "programs/runner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace stridio::testing {
namespace {

std::vector<std::string> amode_names(int amode) {
  static const std::array<std::pair<int, const char*>, 9> kNames = {{{MPI_MODE_RDONLY, "RDONLY"},
                                                                     {MPI_MODE_WRONLY, "WRONLY"},
                                                                     {MPI_MODE_RDWR, "RDWR"},
                                                                     {MPI_MODE_CREATE, "CREATE"},
                                                                     {MPI_MODE_EXCL, "EXCL"},
                                                                     {MPI_MODE_APPEND, "APPEND"},
                                                                     {MPI_MODE_DELETE_ON_CLOSE, "DELETE_ON_CLOSE"},
                                                                     {MPI_MODE_UNIQUE_OPEN, "UNIQUE_OPEN"},
                                                                     {MPI_MODE_SEQUENTIAL, "SEQUENTIAL"}}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames)
    if ((amode & bit) != 0) names.emplace_back(name);
  return names;
}

const char* random_switch(Random& random) {
  static constexpr std::array<const char*, 3> kSwitches = {"enable", "disable", "automatic"};
  return kSwitches[static_cast<std::size_t>(pick(random, 0, 2))];
}

const char* random_buffer(Random& random) {
  static constexpr std::array<const char*, 3> kBuffers = {"4096", "5000", "20000"};
  return kBuffers[static_cast<std::size_t>(pick(random, 0, 2))];
}

}  // namespace

Runner::Runner(const Program& program, const World* world) : program_(program), world_(world) {}

void Runner::say(const std::string& text) {
  if (!executes()) listing_ += text + '\n';
}

void Runner::fail(const std::string& text) {
  if (!executes()) return;
  auto& board = world_->board.ranks[static_cast<std::size_t>(world_->rank)];
  if (board.failure[0] == '\0')
    put_text(board.failure, "step " + std::to_string(step_) + " (" + step_name_ + "): " + text);
  world_->board.failed = 1;
}

void Runner::call(const std::string& name, const std::function<int()>& made) {
  note(name);
  if (!executes()) return;
  const int code = made();
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text = {};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("MPI_" + name + " fails: " + text.data());
}

void Runner::expect_equal(const char* what, std::int64_t got, std::int64_t wanted) {
  if (executes() && got != wanted)
    fail(std::string(what) + " is " + std::to_string(got) + ", not " + std::to_string(wanted));
}

void Runner::barrier() {
  if (executes()) meet(world_->board.members, ranks());
}

std::size_t Runner::any_handle(Random& random) {
  return handles_[1].open && (!handles_[0].open || chance(random, 3)) ? 1 : 0;
}

// ---- The whole program

void Runner::run() {
  Random random(program_.seed);
  sieving_writes_ = chance(random, 2) ? "" : random_switch(random);
  const std::int64_t before = program_.intervals || !chance(random, 2) ? -1 : pick(random, 0, 6000);
  if (before >= 0) {
    file_.exists = true;
    file_.bytes.resize(static_cast<std::size_t>(before));
    for (unsigned char& byte : file_.bytes) byte = static_cast<unsigned char>(random());
    say("a file of " + std::to_string(before) + " bytes is there");
  }
  if (mine(0)) {
    unlink(world_->path.c_str());
    if (before >= 0) {
      const int made = ::open(world_->path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
      if (write(made, file_.bytes.data(), file_.bytes.size()) != before) fail("the harness cannot make its file");
      ::close(made);
    }
  }
  barrier();
  step_name_ = "MPI_File_open";
  open(0, random);
  for (const Step& step : program_.steps) {
    step_ = step.number;
    Random own(step.seed);
    const Kind& kind = kinds()[step.kind];
    step_name_ = "MPI_" + kind.name;
    if (executes()) {
      put_text(world_->board.ranks[static_cast<std::size_t>(world_->rank)].step,
               "step " + std::to_string(step_) + " (" + step_name_ + ")");
      ++world_->board.beats;
    }
    const std::string listed = std::move(listing_);
    listing_.clear();
    if ((this->*kind.run)(own, kind)) {
      note(kind.name);
      listing_ = listed + std::to_string(step_) + ". " + listing_;
    } else {
      listing_ = listed;
    }
  }
  step_name_ = "the end";
  finish_pending(random, "Waitall", false);
  for (const std::size_t handle : {1, 0})
    if (handles_[handle].open) close(handle, random);
  if (file_.exists) {
    note("File_delete");
    if (mine(0)) call("File_delete", [&] { return MPI_File_delete(world_->path.c_str(), MPI_INFO_NULL); });
  }
  if (mine(0) && ::access(world_->path.c_str(), F_OK) == 0) {
    fail("the file is still there");
    unlink(world_->path.c_str());
  }
}

// ---- Opening, closing, synchronizing

int Runner::random_amode(Random& random) const {
  int amode = 0;
  const auto access = pick(random, 1, 20);
  if (access <= 3 && file_.exists) {
    amode = MPI_MODE_RDONLY;
  } else if (access <= 6) {
    amode = MPI_MODE_WRONLY;
  } else {
    amode = MPI_MODE_RDWR;
  }
  if (amode != MPI_MODE_RDONLY && (!file_.exists || chance(random, 2))) amode |= MPI_MODE_CREATE;
  if (!file_.exists && chance(random, 3)) amode |= MPI_MODE_EXCL;
  if (chance(random, 6)) amode |= MPI_MODE_APPEND;
  if (chance(random, 5)) amode |= MPI_MODE_UNIQUE_OPEN;
  if (chance(random, 8)) amode |= MPI_MODE_DELETE_ON_CLOSE;
  if (amode != (amode & ~(MPI_MODE_RDONLY | MPI_MODE_WRONLY)) && chance(random, 4)) amode |= MPI_MODE_SEQUENTIAL;
  return amode;
}

// `common` draws the same on all ranks; what may differ is drawn by (seed, rank).
MPI_Info Runner::random_info(Random& common, int rank, bool opening, std::map<std::string, std::string>& same) {
  static constexpr std::array<const char*, 7> kMethods = {"",      "direct",      "list",     "mapped",
                                                          "sieve", "independent", "two_phase"};
  const auto add = [&](int one_in, const char* name, const std::string& value) {
    if (pick(common, 1, one_in) == 1 && !value.empty()) same[name] = value;
  };
  add(2, "stridio_method", kMethods[static_cast<std::size_t>(pick(common, 0, 5))]);
  add(3, "cb_buffer_size", random_buffer(common));
  add(3, "cb_nodes", std::to_string(pick(common, 0, ranks() + 1)));
  add(3, "romio_cb_read", random_switch(common));
  add(3, "romio_cb_write", random_switch(common));
  if (opening && !sieving_writes_.empty()) same["romio_ds_write"] = sieving_writes_;
  if (opening) add(5, "stridio_node_ranks", std::to_string(pick(common, 1, 3)));
  if (opening && program_.intervals) {
    same["stridio_layout"] = "interval";
    add(4, "stridio_visibility", "immediate");
    add(3, "stridio_cache", random_switch(common));
  }
  Random own(common() + static_cast<std::uint64_t>(rank));
  MPI_Info info = MPI_INFO_NULL;
  if (!executes()) return info;
  MPI_Info_create(&info);
  for (const auto& [name, value] : same) MPI_Info_set(info, name.c_str(), value.c_str());
  if (chance(own, 3)) MPI_Info_set(info, "romio_ds_read", random_switch(own));
  if (chance(own, 3)) MPI_Info_set(info, "ind_rd_buffer_size", random_buffer(own));
  if (chance(own, 3)) MPI_Info_set(info, "ind_wr_buffer_size", random_buffer(own));
  return info;
}

void Runner::open(std::size_t index, Random& random) {
  Handle& handle = handles_[index];
  handle = {};
  handle.open = true;
  handle.amode = random_amode(random);
  if (index == 1) {
    handle.amode &= ~(MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN | MPI_MODE_SEQUENTIAL);
  }
  handle.views.assign(static_cast<std::size_t>(ranks()), byte_view());
  file_.exists = true;
  const std::int64_t start = handle.has(MPI_MODE_APPEND) ? file_.size() : 0;
  handle.pointers.assign(static_cast<std::size_t>(ranks()), start);
  handle.shared = start;
  MPI_Info info = random_info(random, executes() ? world_->rank : 0, true, handle.hints);
  std::string text = "MPI_File_open: handle " + std::to_string(index);
  for (const std::string& name : amode_names(handle.amode)) {
    text += " " + name;
    note("MPI_MODE_" + name);
  }
  for (const auto& [name, value] : handle.hints) {
    text += " " + name + "=" + value;
    note("hint " + (name == "stridio_method" ? name + "=" + value : name));
  }
  say(text);
  call("File_open",
       [&] { return MPI_File_open(world_->comm, world_->path.c_str(), handle.amode, info, &handle.file); });
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  phase_->begin(file_.size());
}

void Runner::close(std::size_t index, Random& random) {
  Handle& handle = handles_[index];
  if (handles_[1 - index].open) {
    synchronize(random);
  } else {
    finish_pending(random, "Waitall", false);
    end_split(index);
  }
  say("MPI_File_close: handle " + std::to_string(index));
  call("File_close", [&] { return MPI_File_close(&handle.file); });
  if (executes() && handle.file != MPI_FILE_NULL) fail("MPI_File_close leaves a handle");
  handle.open = false;
  barrier();
  if (handle.has(MPI_MODE_DELETE_ON_CLOSE)) {
    file_ = {};
    if (mine(0) && ::access(world_->path.c_str(), F_OK) == 0) fail("the file is there after DELETE_ON_CLOSE");
  } else if (mine(0)) {
    compare_file();
  }
  barrier();
  phase_->begin(file_.size());
}

// What is committed, as another program reads it.
Bytes Runner::read_intervals() {
  Bytes bytes;
  MPI_File file = MPI_FILE_NULL;
  MPI_Offset size = 0;
  call("File_open",
       [&] { return MPI_File_open(MPI_COMM_SELF, world_->path.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file); });
  if (file == MPI_FILE_NULL) return bytes;
  call("File_get_size", [&] { return MPI_File_get_size(file, &size); });
  bytes.resize(static_cast<std::size_t>(std::min<MPI_Offset>(size, 2 * kMostFile)));
  call("File_read_at", [&] {
    return MPI_File_read_at(file, 0, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, MPI_STATUS_IGNORE);
  });
  call("File_close", [&] { return MPI_File_close(&file); });
  return bytes;
}

Bytes Runner::read_file() {
  if (program_.intervals) return read_intervals();
  const int file = ::open(world_->path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0) {
    fail("the file is not there");
    return {};
  }
  Bytes bytes(static_cast<std::size_t>(std::min<std::int64_t>(status.st_size, 2 * kMostFile)));
  const auto got = pread(file, bytes.data(), bytes.size(), 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  ::close(file);
  return bytes;
}

void Runner::compare_file() {
  if (const std::string differs = first_difference(read_file(), file_.bytes, "the file"); !differs.empty())
    fail(differs);
}

// Sync, barrier, sync: what was written before is seen by all after. `inspect` looks at the file by other means than MPI.
void Runner::synchronize(Random& random, const std::function<void()>& inspect) {
  finish_pending(random, "", false);
  const auto sync_all = [&] {
    for (const std::size_t handle : {0, 1}) {
      end_split(handle);
      if (handles_[handle].open) call("File_sync", [&] { return MPI_File_sync(handles_[handle].file); });
    }
  };
  sync_all();
  barrier();
  if (inspect) inspect();
  if (mine(0)) compare_file();
  barrier();
  sync_all();
  phase_->begin(file_.size());
}

bool Runner::sync(Random& random, const Kind&) {
  if (handles_[0].atomic && !handles_[1].open && chance(random, 2)) {
    say("barrier, enough in atomic mode");
    finish_pending(random, "", false);
    end_split(0);
    barrier();
    phase_->begin(file_.size());
    return true;
  }
  say("MPI_File_sync, barrier, MPI_File_sync");
  synchronize(random);
  return true;
}

bool Runner::reopen(Random& random, const Kind&) {
  if (handles_[1].open) return false;
  say("close, barrier, open");
  close(0, random);
  open(0, random);
  return true;
}

// Opens it, or closes it if it is open.
bool Runner::second_handle(Random& random, const Kind&) {
  const Handle& first = handles_[0];
  if (handles_[1].open) {
    close(1, random);
    return true;
  }
  if (program_.intervals || first.has(MPI_MODE_DELETE_ON_CLOSE) || first.has(MPI_MODE_UNIQUE_OPEN)) return false;
  synchronize(random);
  open(1, random);
  return true;
}

bool Runner::delete_file(Random& random, const Kind&) {
  if (handles_[1].open) return false;
  say("close, MPI_File_delete by one rank, open");
  close(0, random);
  if (file_.exists && mine(0))
    call("File_delete", [&] { return MPI_File_delete(world_->path.c_str(), MPI_INFO_NULL); });
  file_ = {};
  barrier();
  open(0, random);
  return true;
}

}  // namespace stridio::testing
