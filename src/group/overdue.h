// A wait for other ranks that takes too long says so, on standard error: in which call, of which file, and which ranks are
// missing: they are not in the call yet, or held up by their storage. By default after 60 s; STRIDIO_HANG_SECONDS sets the
// time, 0 stands for never. The wait goes on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/worker.h"

namespace stridio {

// While it lives, this thread is in `call` of the file at `path`; both are lent.
class InCall {
 public:
  InCall(const char* call, const std::string& path);
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
  // The one that the thread is in: MPI_File_..., "a call" where nobody said.
  static std::string name();

 private:
  const std::pair<const char*, const std::string*> before_;
};

// When one wait, begun at its construction, is too long.
class Patience {
 public:
  // Zero: without an end.
  static std::chrono::milliseconds limit();
  // True once.
  bool ends();
  // "has waited 60 s in MPI_File_write_all of data.h5".
  std::string text() const;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool ended_ = false;
};

// "rank 2", "ranks 2, 3 and 5"; of many the first.
std::string list_of(const std::vector<int>& ranks);

// That rank `rank` of `size` waits, by itself, since no memory is shared; for the ranks `whom`, which may wait for others in
// turn, or where that is empty for nobody knows whom. Of many ranks the first say so.
void say_alone(const Patience& patience, int rank, int size, const std::vector<int>& whom = {});

// While it lives, say_alone() is called by another thread when patience ends: for waits inside the host.
class Alarm {
 public:
  Alarm(int rank, int size);
  ~Alarm();

 private:
  struct State;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace stridio
