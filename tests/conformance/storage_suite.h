// What every Storage promises, as tests. A storage or a wrapper registers with
//   INSTANTIATE_TEST_SUITE_P(Name, StorageSuite, ::testing::Values(StorageCase{...}),
//   storage_case_name);
// in a test that links stridio_storage_suite, and passes all of them. The random tests print their
// seed; STRIDIO_SEED in the environment repeats one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "storage/storage.h"

namespace stridio {

// Opens the file that it stands for; may be called often, and every handle is one of the same file.
// The file lasts as long as the opener.
using StorageOpener = std::function<Result<std::unique_ptr<Storage>>(const OpenMode&)>;

struct StorageCase {
  std::string name;                      // letters, digits and underscores
  std::function<StorageOpener()> fresh;  // a new, empty file
  bool sparse = false;                   // a byte at 5 GiB does not cost 5 GiB
};

// For GoogleTest.
void PrintTo(const StorageCase& one, std::ostream* out);
std::string storage_case_name(const ::testing::TestParamInfo<StorageCase>& info);

class StorageSuite : public ::testing::TestWithParam<StorageCase> {
 protected:
  void SetUp() override;

  std::unique_ptr<Storage> open(const OpenMode& mode = {.read = true, .write = true});

  StorageOpener opener_;
  std::unique_ptr<Storage> storage_;  // a handle to read and write with
};

}  // namespace stridio
