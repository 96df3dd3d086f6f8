// STRIDIO_CHECK=1: accesses of different ranks that overlap, one of them a write, with no MPI_File_sync between them and not
// in atomic mode, are named: what the program reads or leaves there is undefined (MPI-4.1 section 14.6.1). One handle's
// accesses are looked at; a sync, which is collective, counts for the sync-barrier-sync of the standard.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "group/group.h"
#include "pattern/pattern.h"
#include "plan/profile.h"

namespace stridio {

class Conflicts {
 public:
  static bool wanted();

  // This rank, in the call that its thread is in, has accessed these bytes. Thread-safe. Memory: some 100 MB; pieces beyond
  // that are not looked at, which the next check says.
  void note(Direction direction, const Pattern& file);
  // Collective: warns of each pair of ranks and calls that conflict, and begins anew.
  Status check(Group& group, const std::string& path);

 private:
  struct Touch {
    Extent extent;
    std::int32_t rank = 0;
    std::uint16_t call = 0;  // of its rank's
    bool writes = false;
  };
  struct Told;

  std::uint16_t number_of(const std::string& call);
  void compact();
  Buffer told(int rank);
  static void name_conflicts(std::vector<Told>& all, const std::string& path);

  std::mutex mutex_;
  std::vector<Touch> touches_;
  std::vector<std::string> calls_;
  bool full_ = false;
};

}  // namespace stridio
