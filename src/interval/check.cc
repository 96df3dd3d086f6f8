#include "interval/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/crc32c.h"
#include "interval/generation.h"

namespace stridio {
namespace {

class Checker {
 public:
  explicit Checker(Storage& storage) : storage_(storage) {}

  Result<Check> run() {
    RETURN_IF_ERROR(headers());
    auto generation = Generation::newest(storage_);
    if (!generation) {
      if (storage_failed(generation.error())) return fail(generation.error());
      check_.damage.push_back(generation.error().what);
      return check_;
    }
    const Root& root = (*generation)->root();
    std::vector<std::shared_ptr<const Part>> parts;
    for (std::size_t i = 0; i < root.parts.size(); ++i) {
      auto part = (*generation)->part(i, storage_);
      if (!part && storage_failed(part.error())) return fail(part.error());
      if (!part) check_.damage.push_back(part.error().what);
      parts.push_back(part ? *part : nullptr);
      if (part) RETURN_IF_ERROR(data(root.parts[i], **part));
    }
    disjoint(root, parts);
    return check_;
  }

 private:
  static Offset header_at(std::size_t i) { return static_cast<Offset>(i) * kHeaderStep; }

  // Of what is found in the bytes, no system call tells.
  static bool storage_failed(const Error& error) { return error.sys_errno != 0 || error.code == Code::kAccess; }

  Status headers() {
    std::array<std::string, kHeaders> wrong;
    std::array<bool, kHeaders> written{};
    std::uint64_t newest = kBirth;
    for (std::size_t i = 0; i < kHeaders; ++i) {
      std::vector<std::byte> bytes(kHeaderStep);
      ASSIGN_OR_RETURN(const Transferred got, storage_.read({header_at(i), kHeaderStep}, bytes.data()));
      bytes.resize(static_cast<std::size_t>(got.bytes));
      const auto head = std::span(bytes).first(std::min<std::size_t>(bytes.size(), kHeaderBytes));
      written[i] = std::any_of(head.begin(), head.end(), [](std::byte byte) { return byte != std::byte{0}; });
      const auto header = decode_header(bytes);
      if (header)
        newest = std::max(newest, header->generation);
      else
        wrong[i] = begins_interval_file(bytes) ? header.error().what : "it does not begin as one";
    }
    const auto note = [&](std::size_t i) {
      if (!wrong[i].empty()) check_.notes.push_back(fmt::format("the header at {}: {}", header_at(i), wrong[i]));
    };
    note(0);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const std::size_t first = 1 + slot * kCopies, second = first + 1;
      static_assert(kCopies == 2);
      if (newest <= kBirth + slot && !written[first] && !written[second]) continue;  // its turn has not come
      note(first);
      note(second);
      if (!wrong[first].empty() && !wrong[second].empty())
        check_.notes.push_back(
            fmt::format("no copy of header slot {} is whole: a commit was cut off, or what it had "
                        "committed is lost and this is the generation before",
                        slot));
    }
    return {};
  }

  Status data(const PartEntry& entry, const Part& part) {
    std::vector<std::byte> buffer(static_cast<std::size_t>(kBuffer));
    std::size_t sum = 0;
    for (const Extent& run : entry.runs)
      for (Offset at = run.offset; at < run.end();) {
        const Extent window = intersect(run, {at / kCell * kCell, kBuffer});
        ASSIGN_OR_RETURN(const Transferred got, storage_.read({at, window.end() - at}, buffer.data()));
        for (const Offset begin = at; at < window.end(); ++sum) {
          const Extent cell = cell_at(run, at);
          if (cell.end() - begin > got.bytes) {
            check_.damage.push_back(fmt::format("truncated: of process {}, the data stored at {} .. {} are missing",
                                                entry.process, cell.offset, run.end()));
            return {};
          }
          if (crc32c({buffer.data() + (at - begin), static_cast<std::size_t>(cell.length)}) != part.sums[sum])
            check_.damage.push_back(fmt::format("of process {}, the data stored at {} .. {} have a wrong checksum",
                                                entry.process, cell.offset, cell.end()));
          at = cell.end();
        }
      }
    return {};
  }

  void disjoint(const Root& root, const std::vector<std::shared_ptr<const Part>>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t k = i + 1; k < parts.size(); ++k)
        if (parts[i] && parts[k] && without(parts[i]->map, parts[k]->map).size() != parts[i]->map.size())
          check_.damage.push_back(
              fmt::format("intervals of processes {} and {} overlap", root.parts[i].process, root.parts[k].process));
  }

  static constexpr Bytes kBuffer = 256 * kCell;
  Storage& storage_;
  Check check_;
};

}  // namespace

Result<Check> check_interval_file(Storage& storage) { return Checker(storage).run(); }

}  // namespace stridio
