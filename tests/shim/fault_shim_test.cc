// The shim below the posix storage: it must reach the calls, and only those it is told to.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "storage/testing/temp_directory.h"

namespace stridio {
namespace {

class FaultShim : public ::testing::Test {
 protected:
  // What the probe prints when it runs with `environment`.
  std::string probe(const std::string& environment) {
    const std::string command = "env LD_PRELOAD=" STRIDIO_FAULT_SHIM " STRIDIO_FAULT_PATH=" + directory_.path() + " " +
                                environment + " " STRIDIO_FAULT_PROBE " " + directory_.file("data") + " 2>&1";
    std::string output;
    FILE* pipe = ::popen(command.c_str(), "r");
    for (int c; (c = std::fgetc(pipe)) != EOF;) output += static_cast<char>(c);
    status_ = ::pclose(pipe);
    return output;
  }

  // The output of an undisturbed run, with one line replaced.
  static std::string good(const std::string& line = "", const std::string& instead = "") {
    std::string text =
        "write 0 in 1: ok\nwrite 1 in 1: ok\nwrite 2 in 1: ok\nread: ok\n"
        "resize: ok\nreserve: ok\nsync: ok\nlock: ok\nclose: ok\n";
    if (!line.empty()) text.replace(text.find(line), line.size(), instead);
    return text;
  }

  TempDirectory directory_;
  int status_ = 0;
};

TEST_F(FaultShim, NothingIsAskedFor) { EXPECT_EQ(probe(""), good()); }

TEST_F(FaultShim, TheChosenOperationFails) {
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=1,errno=ENOSPC"), good("write 1 in 1: ok", "write 1: no space"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=EIO,kind=read"), good("read: ok", "read: io"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=EDQUOT,kind=size"), good("resize: ok", "resize: quota"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=1,errno=EDQUOT,kind=size"), good("reserve: ok", "reserve: quota"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=EIO,kind=sync"), good("sync: ok", "sync: io"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=EIO,kind=lock"), good("lock: ok", "lock: io"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=ENOSPC,kind=close"), good("close: ok", "close: no space"));
}

TEST_F(FaultShim, StickyFaultsStay) {
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=1,errno=ENOSPC,kind=write,sticky"),
            good("write 1 in 1: ok\nwrite 2 in 1: ok", "write 1: no space\nwrite 2: no space"));
}

TEST_F(FaultShim, InterruptionsAndShortTransfersAreRiddenOut) {
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=1,errno=EINTR"), good());
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=EINTR,sticky"), good());
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=1,errno=SHORT"), good("write 1 in 1: ok", "write 1 in 2: ok"));
  EXPECT_EQ(probe("STRIDIO_FAULT=rank=0,op=0,errno=SHORT,sticky"),
            "write 0 in 4: ok\nwrite 1 in 4: ok\nwrite 2 in 4: ok\nread: ok\n"
            "resize: ok\nreserve: ok\nsync: ok\nlock: ok\nclose: ok\n");
}

TEST_F(FaultShim, OnlyTheChosenRankFails) {
  const std::string fault = "STRIDIO_FAULT=rank=2,op=1,errno=ENOSPC ";
  const std::string failed = good("write 1 in 1: ok", "write 1: no space");
  EXPECT_EQ(probe(fault), good());
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) {
    EXPECT_EQ(probe(fault + name + "=1"), good());
    EXPECT_EQ(probe(fault + name + "=2"), failed);
  }
}

TEST_F(FaultShim, OnlyTheChosenFilesFail) {
  EXPECT_EQ(probe("STRIDIO_FAULT_PATH=/elsewhere STRIDIO_FAULT=rank=0,op=1,errno=ENOSPC"), good());
  EXPECT_EQ(probe("STRIDIO_FAULT_PATH=/elsewhere STRIDIO_FAULT_NOLOCK=1"), good());
}

TEST_F(FaultShim, NoLocks) {
  EXPECT_EQ(probe("STRIDIO_FAULT_NOLOCK=1"), good("lock: ok", "lock: unsupported operation"));
}

TEST_F(FaultShim, FaultsThatAreNotUnderstoodEndTheProgram) {
  for (const char* fault : {"rank=0", "rank=0,op=1,errno=ENOSUCH", "rank=0,op=x,errno=EIO",
                            "rank=0,op=1,errno=EIO,oops", "rank=0,op=1,errno=EIO,kind=all"}) {
    EXPECT_NE(probe(std::string("STRIDIO_FAULT=") + fault).find("not understood"), std::string::npos) << fault;
    EXPECT_NE(status_, 0);
  }
}

}  // namespace
}  // namespace stridio
