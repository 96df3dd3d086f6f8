// The serial oracle: the bytes of the file, the pointers, and who has touched what since the ranks last synchronized.
#pragma once

#include <array>
#include <map>

#include "programs/types.h"

namespace stridio::testing {

constexpr std::int64_t kMostFile = 1 << 16;  // bytes; no access goes further

// Who accesses: a rank through a handle. What is still on its way, or has no order, is nobody's own.
using Accessor = int;
constexpr Accessor kUnordered = 31;

// MPI's rule in nonatomic mode: between two synchronizations, conflicting accesses come from one rank and handle.
class Phase {
 public:
  void begin(std::int64_t size);
  // Whether the access conflicts with nobody's; and that it was made.
  bool may_read(Accessor who, const Places& places) const;
  bool may_write(Accessor who, const Places& places) const;
  void note_read(Accessor who, const Places& places);
  void note_write(Accessor who, const Places& places);
  // The size of the file is read, as get_size or a read past the end does.
  bool may_read_size(Accessor who) const { return only(grown_by_, who); }
  void note_size_read(Accessor who) { size_read_by_ |= 1u << who; }

 private:
  static bool only(std::uint32_t set, Accessor who) { return who == kUnordered ? set == 0 : (set & ~(1u << who)) == 0; }
  bool passes_end(const Places& places) const;

  std::int64_t start_size_ = 0;
  std::array<std::uint32_t, kMostFile> written_by_ = {}, read_by_ = {};
  std::uint32_t grown_by_ = 0, size_read_by_ = 0;
};

struct FileModel {
  bool exists = false;
  Bytes bytes;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }
  void write(const Places& places, const Bytes& data);
  // How many of the places, from the first, lie within the file.
  std::int64_t available(const Places& places) const;
};

struct Handle {
  bool open = false;
  int amode = 0;
  bool atomic = false, same_view = true;
  std::vector<View> views;
  std::vector<std::int64_t> pointers;  // in bytes of the view's data
  std::int64_t shared = 0;
  std::map<std::string, std::string> hints;  // that every rank gave
  std::string datarep = "native";
  MPI_File file = MPI_FILE_NULL;

  bool reads() const { return (amode & (MPI_MODE_RDONLY | MPI_MODE_RDWR)) != 0; }
  bool writes() const { return (amode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0; }
  bool has(int mode) const { return (amode & mode) != 0; }
};

// Whether a random legal order of the operations explains what was seen. Each rank's own stay in order.
struct Observed {
  bool writes = false;
  Places places;
  Bytes data;  // written, or got
};
// The operations of each rank, done atomically in some order on `before`, leave `after`.
bool some_serial_order(const std::vector<std::vector<Observed>>& ranks, const Bytes& before, const Bytes& after);

}  // namespace stridio::testing
