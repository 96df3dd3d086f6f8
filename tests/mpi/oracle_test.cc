// Random views, memory types and forms of access, by all ranks at once, against an array of bytes that each rank
// keeps of the whole file. A case replays from its printed seed.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "mpi/mpi_fixture.h"
#include "mpi/random_datatype.h"

namespace stridio::testing {
namespace {

using Bytes = std::vector<unsigned char>;
using Hints = std::vector<std::pair<const char*, const char*>>;

// Where the view's data positions [begin, end) lie in the file.
std::vector<std::int64_t> places(const std::vector<std::int64_t>& tile, std::int64_t extent, std::int64_t displacement,
                                 std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> result;
  const auto n = static_cast<std::int64_t>(tile.size());
  for (std::int64_t p = begin; p < end; ++p)
    result.push_back(displacement + p / n * extent + tile[static_cast<std::size_t>(p % n)]);
  return result;
}

constexpr std::size_t kMostWritten = 2000;  // bytes by a rank in a round

struct Piece {
  std::vector<std::int64_t> file;  // places in the file, in data order
  Bytes data;                      // what is written there
};

// One broadcast of a fixed length: a collective of MPICH costs milliseconds.
Piece broadcast(const Piece& mine, int root) {
  struct Wire {
    std::int64_t length;
    std::array<std::int64_t, kMostWritten> file;
    std::array<unsigned char, kMostWritten> data;
  };
  static Wire wire;
  wire.length = static_cast<std::int64_t>(mine.data.size());
  std::copy(mine.file.begin(), mine.file.end(), wire.file.begin());
  std::copy(mine.data.begin(), mine.data.end(), wire.data.begin());
  MPI_Bcast(&wire, sizeof wire, MPI_BYTE, root, MPI_COMM_WORLD);
  return {{wire.file.begin(), wire.file.begin() + wire.length}, {wire.data.begin(), wire.data.begin() + wire.length}};
}

class Oracle : public MpiTest {
 protected:
  static constexpr std::int64_t kFileBytes = 1 << 16;

  void run_case(std::uint64_t seed, const Hints& hints);
  void write_round(std::mt19937_64& common, std::mt19937_64& mine);
  void read_round(std::mt19937_64& common, std::mt19937_64& mine);
  void set_random_view(std::mt19937_64& mine);
  void compare();
  void merge(const Piece& piece);
  int write(int form, std::int64_t offset, const void* buffer, int count, MPI_Datatype type, MPI_Status* status);
  int read(int form, std::int64_t offset, void* buffer, int count, MPI_Datatype type, MPI_Status* status);

  MPI_File fh_ = MPI_FILE_NULL;
  Bytes expected_;
  std::int64_t size_ = 0;  // of the file
  // The view, in bytes.
  std::vector<std::int64_t> tile_;
  std::int64_t extent_ = 1, displacement_ = 0;
};

void Oracle::set_random_view(std::mt19937_64& mine) {
  MadeType made = random_datatype(mine, {.depth = 2, .size = 512, .extent = 4096, .for_views = true});
  MPI_Count lb = 0, extent = 0;
  MPI_Type_get_extent_x(made.datatype, &lb, &extent);
  displacement_ = static_cast<std::int64_t>(mine() % 64);
  tile_ = made.bytes;
  extent_ = extent;
  SCOPED_TRACE(made.how);
  EXPECT_MPI_OK(MPI_File_set_view(fh_, displacement_, MPI_BYTE, made.datatype, "native", MPI_INFO_NULL));
  MPI_Type_free(&made.datatype);
}

int Oracle::write(int form, std::int64_t offset, const void* buffer, int count, MPI_Datatype type, MPI_Status* status) {
  int code = MPI_SUCCESS;
  switch (form) {
    case 0: return MPI_File_write_at_all(fh_, offset, buffer, count, type, status);
    case 1: return MPI_File_write_at(fh_, offset, buffer, count, type, status);
    case 2: MPI_File_seek(fh_, offset, MPI_SEEK_SET); return MPI_File_write_all(fh_, buffer, count, type, status);
    case 3:
      code = MPI_File_write_at_all_begin(fh_, offset, buffer, count, type);
      return code != MPI_SUCCESS ? code : MPI_File_write_at_all_end(fh_, buffer, status);
    default: {
      MPI_Request request;
      code = MPI_File_iwrite_at_all(fh_, offset, buffer, count, type, &request);
      return code != MPI_SUCCESS ? code : MPI_Wait(&request, status);
    }
  }
}

int Oracle::read(int form, std::int64_t offset, void* buffer, int count, MPI_Datatype type, MPI_Status* status) {
  int code = MPI_SUCCESS;
  switch (form) {
    case 0: return MPI_File_read_at_all(fh_, offset, buffer, count, type, status);
    case 1: return MPI_File_read_at(fh_, offset, buffer, count, type, status);
    case 2: MPI_File_seek(fh_, offset, MPI_SEEK_SET); return MPI_File_read_all(fh_, buffer, count, type, status);
    case 3:
      code = MPI_File_read_at_all_begin(fh_, offset, buffer, count, type);
      return code != MPI_SUCCESS ? code : MPI_File_read_at_all_end(fh_, buffer, status);
    default: {
      MPI_Request request;
      code = MPI_File_iread_at_all(fh_, offset, buffer, count, type, &request);
      return code != MPI_SUCCESS ? code : MPI_Wait(&request, status);
    }
  }
}

// Memory for `count` elements of a random type: in any order and with overlaps to write from, without to read into.
struct RandomMemory {
  MadeType type;
  int count = 0;
  Bytes bytes;
  std::vector<std::int64_t> places;  // into bytes, in data order
  std::int64_t origin = 0;           // the displacement that bytes[0] has

  RandomMemory(std::mt19937_64& random, std::int64_t most, bool overlaps) {
    type = random_datatype(random, {.depth = 2, .size = 256, .extent = 2048, .for_views = !overlaps});
    MPI_Count lb = 0, extent = 0;
    MPI_Type_get_extent_x(type.datatype, &lb, &extent);
    const auto fit = most / std::max<std::int64_t>(1, static_cast<std::int64_t>(type.bytes.size()));
    count = static_cast<int>(random() % static_cast<std::uint64_t>(std::min<std::int64_t>(fit, 20) + 1));
    for (int i = 0; i < count; ++i)
      for (const std::int64_t byte : type.bytes) places.push_back(i * extent + byte);
    if (places.empty()) return;
    const auto [lowest, highest] = std::minmax_element(places.begin(), places.end());
    origin = *lowest - 8;  // with a margin that must stay as it is
    bytes.resize(static_cast<std::size_t>(*highest - *lowest + 17));
    for (std::int64_t& place : places) place -= origin;
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  }
  unsigned char* address() { return bytes.data() - origin; }
  ~RandomMemory() { MPI_Type_free(&type.datatype); }
  RandomMemory(const RandomMemory&) = delete;
  RandomMemory& operator=(const RandomMemory&) = delete;
};

void Oracle::merge(const Piece& piece) {
  for (std::size_t i = 0; i < piece.file.size(); ++i) {
    expected_[static_cast<std::size_t>(piece.file[i])] = piece.data[i];
    size_ = std::max(size_, piece.file[i] + 1);
  }
}

// Ranks write disjoint bytes: each takes a share of its view's data that no other's touches, by turns of blocks.
void Oracle::write_round(std::mt19937_64& common, std::mt19937_64& mine) {
  const int form = static_cast<int>(common() % 5);
  const auto block = static_cast<std::int64_t>(1 + common() % 200);
  MPI_Datatype share, contiguous;
  MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &contiguous);
  MPI_Type_create_resized(contiguous, 0, block * size(), &share);
  MPI_Type_commit(&share);
  EXPECT_MPI_OK(MPI_File_set_view(fh_, block * rank(), MPI_BYTE, share, "native", MPI_INFO_NULL));
  MPI_Type_free(&share);
  MPI_Type_free(&contiguous);
  std::vector<std::int64_t> tile(static_cast<std::size_t>(block));
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<std::int64_t>(i);

  const auto offset = static_cast<std::int64_t>(mine() % 1000);
  RandomMemory memory(mine, kMostWritten, true);
  SCOPED_TRACE(memory.type.how + " x " + std::to_string(memory.count) + ", form " + std::to_string(form));
  MPI_Status status;
  EXPECT_MPI_OK(write(form, offset, memory.address(), memory.count, memory.type.datatype, &status));
  int moved = -1;
  MPI_Get_count(&status, MPI_BYTE, &moved);
  EXPECT_EQ(moved, static_cast<int>(memory.places.size()));
  Piece piece;
  for (const std::int64_t place : memory.places) piece.data.push_back(memory.bytes[static_cast<std::size_t>(place)]);
  piece.file =
      places(tile, block * size(), block * rank(), offset, offset + static_cast<std::int64_t>(piece.data.size()));
  for (int r = 0; r < size(); ++r) merge(broadcast(piece, r));
}

// Every rank reads through a random view of its own, overlapping the others', past the end too.
void Oracle::read_round(std::mt19937_64& common, std::mt19937_64& mine) {
  const int form = static_cast<int>(common() % 5);
  set_random_view(mine);
  const auto offset = static_cast<std::int64_t>(mine() % 500);
  RandomMemory memory(mine, 3000, false);
  SCOPED_TRACE(memory.type.how + " x " + std::to_string(memory.count) + ", form " + std::to_string(form));
  Bytes wanted = memory.bytes;
  const auto file =
      places(tile_, extent_, displacement_, offset, offset + static_cast<std::int64_t>(memory.places.size()));
  int available = 0;
  while (available < static_cast<int>(file.size()) && file[static_cast<std::size_t>(available)] < size_) {
    const auto i = static_cast<std::size_t>(available++);
    wanted[static_cast<std::size_t>(memory.places[i])] = expected_[static_cast<std::size_t>(file[i])];
  }
  MPI_Status status;
  EXPECT_MPI_OK(read(form, offset, memory.address(), memory.count, memory.type.datatype, &status));
  int moved = -1;
  MPI_Get_count(&status, MPI_BYTE, &moved);
  EXPECT_EQ(moved, available);
  EXPECT_TRUE(memory.bytes == wanted) << "data differs";
}

void Oracle::compare() {
  EXPECT_MPI_OK(MPI_File_set_view(fh_, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  MPI_Offset bytes = 0;
  EXPECT_MPI_OK(MPI_File_get_size(fh_, &bytes));
  EXPECT_EQ(bytes, size_);
  Bytes got(static_cast<std::size_t>(size_));
  EXPECT_MPI_OK(MPI_File_read_at_all(fh_, 0, got.data(), static_cast<int>(size_), MPI_BYTE, MPI_STATUS_IGNORE));
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected_.begin())) << "the file differs";
}

void Oracle::run_case(std::uint64_t seed, const Hints& hints) {
  SCOPED_TRACE("replay with STRIDIO_SEED=" + std::to_string(seed));
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  for (const auto& [name, value] : hints) MPI_Info_set(info, name, value);
  fh_ = open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info);
  MPI_Info_free(&info);
  expected_.assign(static_cast<std::size_t>(kFileBytes) * static_cast<std::size_t>(size()), 0);
  size_ = 0;
  std::mt19937_64 common(seed);
  std::mt19937_64 mine(seed * 1000003 + static_cast<std::uint64_t>(rank()));
  for (int round = 0; round < 3; ++round) {
    write_round(common, mine);
    MPI_File_sync(fh_);  // what was written independently is seen by all after sync, barrier, sync
    MPI_Barrier(MPI_COMM_WORLD);
    read_round(common, mine);
  }
  compare();
  EXPECT_MPI_OK(MPI_File_close(&fh_));
}

TEST_F(Oracle, RandomAccessesLeaveTheBytesOfAnArray) {
  const std::uint64_t seed = shared_seed();
  const char* given = std::getenv("STRIDIO_CASES");
  const int cases = given != nullptr ? std::atoi(given) : 40;
  const std::vector<Hints> hints = {
      {},
      {{"stridio_method", "two_phase"}},
      {{"stridio_node_ranks", "2"}},
      {{"cb_buffer_size", "4096"}},
      {{"stridio_layout", "interval"}},
      {{"stridio_layout", "interval"}, {"stridio_method", "two_phase"}},
      {{"stridio_layout", "interval"}, {"stridio_node_ranks", "2"}},
      {{"stridio_node_ranks", "1"}, {"stridio_method", "two_phase"}},
      {{"stridio_node_ranks", "2"}, {"stridio_method", "two_phase"}},
      {{"stridio_node_ranks", "3"}, {"stridio_method", "two_phase"}},
      {{"stridio_node_ranks", "2"}, {"stridio_method", "two_phase"}, {"cb_buffer_size", "512"}, {"cb_nodes", "3"}}};
  for (int i = 0; i < cases; ++i) {
    run_case(seed + static_cast<std::uint64_t>(i), hints[static_cast<std::size_t>(i) % hints.size()]);
    int failed = HasFailure() ? 1 : 0, any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any != 0) break;
  }
}

}  // namespace
}  // namespace stridio::testing
