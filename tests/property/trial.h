// A case being tried: the file, the ranks' storages and memory, what they got, and the judgement on
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "property/case.h"
#include "property/oracle.h"
#include "property/scratch_file.h"
#include "property/seed.h"
#include "property/watched_storage.h"
#include "storage/memory.h"

namespace stridio::testing {

class Trial {
 public:
  explicit Trial(Case tried, ScratchFile& path);

  // Whether this kind of build can judge it.
  bool possible() const { return kMayOverlap || case_.direction == Direction::kRead || !owners_.overlap(); }
  // On every rank at once.
  void act(Group& group);
  // After all have: what is wrong, if anything.
  std::optional<std::string> wrong();

  const Case& tried() const { return case_; }
  bool fault_struck() const;

 private:
  struct Rank {
    UserMemory memory;
    Watch watch;
    Times times;
    Result<Transferred> result;
  };

  std::unique_ptr<Storage> open(int rank);
  Result<Transferred> carry_out(Group& group, Storage& storage, int rank);
  CollectiveRequest request_of(int rank);
  Status carry_out_earlier(Group& group, CollectiveRequest request, int rank);
  bool may_write(int rank, const Extent& range) const;
  Image contents() const;

  std::optional<std::string> wrong_outcomes() const;
  std::optional<std::string> wrong_success(int rank) const;
  std::optional<std::string> wrong_failure(int rank) const;
  std::optional<std::string> wrong_memory(int rank) const;
  Ownership::Writers failed() const;

  const Case case_;
  ScratchFile& path_;
  std::shared_ptr<MemoryFile> file_;
  Ownership owners_;
  std::vector<Rank> ranks_;
};

}  // namespace stridio::testing
