#include "mpiio/representation.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "mpiio/datarep.h"

namespace stridio::mpiio {
namespace {

// A user's memory as a stream of packed bytes, through a small buffer.
class Stream {
 public:
  static constexpr Bytes kCapacity = 65536;

  explicit Stream(const Memory& memory)
      : memory_{memory.base, Cursor(memory.pattern)}, left_(memory.pattern.size()), bytes_(kCapacity) {}

  // The next `size` bytes, kCapacity at most.
  const std::byte* read(Bytes size) {
    if (end_ - begin_ < size) refill();
    begin_ += size;
    return bytes_.data() + begin_ - size;
  }
  // Room for the next `size` bytes, kCapacity at most; on their way by the next call, or flush().
  std::byte* write(Bytes size) {
    if (end_ + size > kCapacity) flush();
    end_ += size;
    return bytes_.data() + end_ - size;
  }
  void flush() {
    Side from{bytes_.data(), Cursor(Pattern::run(0, end_))};
    copy(memory_, from, end_);
    end_ = 0;
  }

 private:
  void refill() {
    std::copy(bytes_.begin() + begin_, bytes_.begin() + end_, bytes_.begin());
    end_ -= begin_;
    begin_ = 0;
    const Bytes size = std::min(kCapacity - end_, left_);
    Side to{bytes_.data() + end_, Cursor(Pattern::run(0, size))};
    copy(to, memory_, size);
    end_ += size;
    left_ -= size;
  }

  Side memory_;
  Bytes left_;
  std::vector<std::byte> bytes_;
  Bytes begin_ = 0, end_ = 0;  // of what the buffer holds
};

// Calls body(item, count) for runs of at most Stream::kCapacity bytes, up to `items` items in all.
template <typename Body>
void for_each_piece(const Signature& signature, std::int64_t items, Body&& body) {
  signature.for_each_run([&](const Item& item, std::int64_t count) {
    const std::int64_t most = Stream::kCapacity / item.size;
    for (count = std::min(count, items); count > 0;) {
      const std::int64_t some = std::min(count, most);
      if (!body(item, some)) return false;
      count -= some;
      items -= some;
    }
    return items > 0;
  });
}

class External32 : public Representation {
 public:
  Result<Bytes> file_extent(const Item& item) const override {
    if (item.external32) return item.external32->file_size();
    char name[MPI_MAX_OBJECT_NAME + 1] = {};
    int length = 0;
    PMPI_Type_get_name(item.datatype, name, &length);
    return fail(Code::kDatatype, "external32 has no format for the datatype " +
                                     (length > 0 ? std::string(name) : std::string("without a name")) +
                                     "; use the datatypes of MPI-4.1 table 14.2");
  }

  Status to_file(const Buffer& from, std::byte* file) const override {
    Stream memory(from.memory);
    Status status;
    for_each_piece(from.signature, from.signature.items(), [&](const Item& item, std::int64_t count) {
      status = to_external32(*item.external32, count, memory.read(count * item.size), file);
      file += count * item.external32->file_size();
      return status.has_value();
    });
    return status;
  }

  Status from_file(const std::byte* file, std::int64_t items, const Buffer& to) const override {
    Stream memory(to.memory);
    for_each_piece(to.signature, items, [&](const Item& item, std::int64_t count) {
      from_external32(*item.external32, count, file, memory.write(count * item.size));
      file += count * item.external32->file_size();
      return true;
    });
    memory.flush();
    return {};
  }
};

// The whole items among the first `moved` bytes of the file's form.
struct Whole {
  std::int64_t items = 0;
  Bytes bytes = 0;  // in memory
};

Result<Whole> whole_items(const Representation& representation, const Signature& signature, Bytes moved) {
  Whole whole;
  Status status;
  signature.for_each_run([&](const Item& item, std::int64_t count) {
    const auto extent = representation.file_extent(item);
    if (!extent) {
      status = fail(extent.error());
      return false;
    }
    const std::int64_t got = *extent > 0 ? std::min(count, moved / *extent) : count;
    whole.items += got;
    whole.bytes += got * item.size;
    moved -= got * *extent;
    return got == count;
  });
  if (!status) return fail(status.error());
  return whole;
}

}  // namespace

Result<std::shared_ptr<const Representation>> find_representation(const char* name) {
  static const auto external32 = std::make_shared<const External32>();
  const std::string_view given = name == nullptr ? "(null)" : name;
  if (given == "native" || given == "internal") return nullptr;
  if (given == "external32") return external32;
  if (auto registered = find_datarep(given)) return registered;
  return fail(Code::kUnsupportedDatarep,
              "data representation \"" + std::string(given) +
                  "\" is not known; use \"native\", \"internal\", \"external32\" or one that "
                  "MPI_Register_datarep has made");
}

Result<std::unique_ptr<Conversion>> Conversion::start(std::shared_ptr<const Representation> representation,
                                                      Direction direction, const Buffer& buffer) {
  auto conversion = std::make_unique<Conversion>();
  ASSIGN_OR_RETURN(conversion->size_,
                   buffer.signature.sum([&](const Item& item) { return representation->file_extent(item); }));
  conversion->staging_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(conversion->size_)]);
  if (!conversion->staging_)
    return fail(Code::kNoMemory, "no memory for the " + std::to_string(conversion->size_) +
                                     " bytes of the access in the file's data representation; access less at a time");
  if (direction == Direction::kWrite) {
    RETURN_IF_ERROR(representation->to_file(buffer, conversion->staging_.get()));
  } else {
    ASSIGN_OR_RETURN(conversion->datatype_, KeptType::keep(buffer.datatype));
  }
  conversion->representation_ = std::move(representation);
  conversion->direction_ = direction;
  conversion->buffer_ = buffer;
  return conversion;
}

Memory Conversion::staged() const { return {staging_.get(), Pattern::run(0, size_)}; }

Result<Bytes> Conversion::finish(Bytes moved) {
  Whole whole{buffer_.signature.items(), buffer_.memory.pattern.size()};
  if (moved < size_) {
    ASSIGN_OR_RETURN(whole, whole_items(*representation_, buffer_.signature, moved));
  }
  if (direction_ == Direction::kRead && whole.items > 0) {
    ASSIGN_OR_RETURN(const OwnedType datatype, datatype_.original());
    buffer_.datatype = datatype.get();
    RETURN_IF_ERROR(representation_->from_file(staging_.get(), whole.items, buffer_));
  }
  return whole.bytes;
}

}  // namespace stridio::mpiio
