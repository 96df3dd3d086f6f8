// 1. Rank 0 creates the segment under an unguessable name, alone (O_EXCL) and for its user alone
// (0600), and
//    reserves its space: a full /dev/shm is an error code here and now, not a SIGBUS at some later
//    store.
// 2. Agreement: its name, or the error.
// 3. The others map it. A container may show them another /dev/shm: that is an error code too.
// 4. Agreement: everybody's error code. Only if none failed does anybody keep it.
// 5. Rank 0 unlinks the name: the memory goes with its last mapping, however the processes end.
#include "group/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "group/group.h"

namespace stridio {
namespace {

// What rank 0 offers: a name, or, to threads, where its owner stands while they copy it.
struct Offer {
  std::int32_t error = 0;
  std::array<char, 44> name{};
  std::uintptr_t owner = 0;
};

// A name in /dev/shm, gone at the end of its scope.
class ShmName {
 public:
  ~ShmName() {
    if (!name_.empty()) shm_unlink(name_.c_str());
  }
  // An open descriptor of a new object of this name, or -1 with errno.
  int create() {
    std::array<unsigned char, 16> random;
    if (getrandom(random.data(), random.size(), 0) != std::ssize(random)) return -1;
    std::string name = "/stridio-";
    for (unsigned char byte : random) {
      name += "0123456789abcdef"[byte >> 4];
      name += "0123456789abcdef"[byte & 15];
    }
    const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) name_ = name;
    return fd;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// Maps `fd` (-1: anonymous memory), which is closed or the segment's; null with `error` set where that fails.
std::shared_ptr<Segment> map(int fd, Bytes length, Bytes reserved, int& error) {
  const int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
  void* data = mmap(nullptr, static_cast<std::size_t>(length), PROT_READ | PROT_WRITE, flags, fd, 0);
  error = data == MAP_FAILED ? errno : 0;
  const bool grows = error == 0 && fd >= 0 && reserved < length;
  if (fd >= 0 && !grows) close(fd);
  if (error != 0) return nullptr;
  return std::make_shared<Segment>(static_cast<std::byte*>(data), length, grows ? reserved : length, grows ? fd : -1);
}

int reserve_space(int fd, Bytes length) {
  int error;
  do error = posix_fallocate(fd, 0, length);
  while (error == EINTR);
  return error;
}

std::shared_ptr<Segment> create_named(ShmName& name, Bytes length, Bytes reserved, int& error) {
  const int fd = name.create();
  error = fd < 0 || ftruncate(fd, length) != 0 ? errno : reserve_space(fd, reserved);
  if (error == 0) return map(fd, length, reserved, error);
  if (fd >= 0) close(fd);
  return nullptr;
}

std::shared_ptr<Segment> attach_named(const char* name, Bytes length, Bytes reserved, int& error) {
  const int fd = shm_open(name, O_RDWR, 0600);
  struct stat stat;
  error = fd < 0 || fstat(fd, &stat) != 0 ? errno : stat.st_size != length ? EINVAL : 0;
  if (error == 0) return map(fd, length, reserved, error);
  if (fd >= 0) close(fd);
  return nullptr;
}

template <typename T>
Result<std::vector<T>> allgather(const Bootstrap& bootstrap, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(bootstrap.size));
  RETURN_IF_ERROR(bootstrap.allgather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all))));
  return all;
}

tl::unexpected<Error> refused(int rank, int error) {
  return fail(
      Error{.code = Code::kNoMemory, .what = "cannot have a shared memory segment", .sys_errno = error, .rank = rank});
}

}  // namespace

Segment::~Segment() {
  munmap(data_, static_cast<std::size_t>(length_));
  if (fd_ >= 0) close(fd_);
}

bool Segment::reserve(Bytes length) {
  if (length <= reserved_.load()) return true;
  if (length > length_ || reserve_space(fd_, length) != 0) return false;
  Bytes before = reserved_.load();
  while (before < length && !reserved_.compare_exchange_weak(before, length)) {
  }
  return true;
}

Bootstrap bootstrap_over(Group& group) {
  return {group.rank(), group.size(),
          [&group](std::span<const std::byte> mine, std::span<std::byte> all) { return group.allgather(mine, all); }};
}

Result<std::shared_ptr<Segment>> agree_on_segment(const Bootstrap& bootstrap, Bytes length, Bytes reserved,
                                                  bool one_address_space,
                                                  const std::function<void(Segment&)>& attached) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  const auto whole_pages = [page](Bytes bytes) { return (std::max<Bytes>(bytes, 1) + page - 1) / page * page; };
  length = whole_pages(length);
  reserved = whole_pages(reserved);
  Offer offer;
  ShmName name;
  std::shared_ptr<Segment> segment;
  if (bootstrap.rank == 0) {
    segment =
        one_address_space ? map(-1, length, length, offer.error) : create_named(name, length, reserved, offer.error);
    name.name().copy(offer.name.data(), offer.name.size() - 1);
    offer.owner = reinterpret_cast<std::uintptr_t>(&segment);
  }
  ASSIGN_OR_RETURN(const std::vector<Offer> offers, allgather(bootstrap, offer));
  offer = offers.front();
  if (offer.error != 0) return refused(0, offer.error);

  int error = 0;
  if (bootstrap.rank != 0)
    segment = one_address_space ? *reinterpret_cast<std::shared_ptr<Segment>*>(offer.owner)
                                : attach_named(offer.name.data(), length, reserved, error);
  if (segment && attached) attached(*segment);
  ASSIGN_OR_RETURN(const std::vector<int> errors, allgather(bootstrap, error));
  const auto failed = std::find_if(errors.begin(), errors.end(), [](int e) { return e != 0; });
  if (failed != errors.end()) return refused(static_cast<int>(failed - errors.begin()), *failed);
  return segment;
}

}  // namespace stridio
