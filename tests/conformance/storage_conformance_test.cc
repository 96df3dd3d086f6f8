// Every storage of this house, and every wrapper around one, against the suite.
#include <cerrno>

#include "conformance/storage_suite.h"
#include "conformance/unreliable_calls.h"
#include "storage/memory.h"
#include "storage/posix.h"
#include "storage/testing/temp_directory.h"
#include "storage/wrap/delay.h"
#include "storage/wrap/fault.h"
#include "storage/wrap/trace.h"

namespace stridio {
namespace {

using namespace std::chrono_literals;

StorageOpener fresh_posix(const PosixCalls& calls) {
  auto directory = std::make_shared<TempDirectory>();
  return [directory, calls](OpenMode mode) {
    mode.create = mode.write;
    return open_posix(directory->file("data"), mode, calls);
  };
}

StorageOpener fresh_memory() {
  return [file = make_memory_file()](const OpenMode& mode) -> Result<std::unique_ptr<Storage>> {
    return open_memory(file, mode);
  };
}

// A file system without range locks and without allocation, as some network ones are.
PosixCalls modest_calls() {
  PosixCalls calls;
  calls.lock = [](int, int, struct flock*) {
    errno = ENOLCK;
    return -1;
  };
  calls.fallocate = [](int, int, off_t, off_t) {
    errno = EOPNOTSUPP;
    return -1;
  };
  return calls;
}

// An opener whose handles `wrap` has wrapped.
template <typename Wrap>
StorageOpener wrapped(StorageOpener opener, Wrap wrap) {
  return [opener, wrap](const OpenMode& mode) -> Result<std::unique_ptr<Storage>> {
    ASSIGN_OR_RETURN(auto storage, opener(mode));
    return wrap(std::move(storage));
  };
}

StorageOpener fresh_traced() {
  return wrapped(fresh_posix({}), [counters = std::make_shared<StorageCounters>()](auto storage) {
    return wrap_trace(std::move(storage), counters);
  });
}

StorageOpener fresh_delayed() {
  const DelayModel model{.latency = 1us, .bytes_per_second = 1e9};
  return wrapped(fresh_memory(), [line = std::make_shared<DelayLine>(model)](auto storage) {
    return wrap_delay(std::move(storage), line);
  });
}

StorageOpener fresh_faultless() {
  return wrapped(fresh_posix({}), [](auto storage) { return wrap_fault(std::move(storage), FaultPlan{}); });
}

INSTANTIATE_TEST_SUITE_P(
    Storages, StorageSuite,
    ::testing::Values(
        StorageCase{.name = "posix", .fresh = [] { return fresh_posix({}); }, .sparse = true},
        StorageCase{
            .name = "posix_unreliable", .fresh = [] { return fresh_posix(unreliable_calls()); }, .sparse = true},
        StorageCase{.name = "posix_modest", .fresh = [] { return fresh_posix(modest_calls()); }, .sparse = true},
        StorageCase{.name = "memory", .fresh = fresh_memory},
        StorageCase{.name = "trace_posix", .fresh = fresh_traced, .sparse = true},
        StorageCase{.name = "delay_memory", .fresh = fresh_delayed},
        StorageCase{.name = "fault_posix", .fresh = fresh_faultless, .sparse = true}),
    storage_case_name);

}  // namespace
}  // namespace stridio
