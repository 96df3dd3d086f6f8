// Runs a program: every rank works out what all ranks do, by the oracle, does its own part and compares.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "programs/board.h"
#include "programs/model.h"
#include "programs/program.h"

namespace stridio::testing {

struct World {
  Board& board;
  MPI_Comm comm;
  int rank, ranks;
  std::string path;
};

class Runner;
struct Kind {
  std::string name;  // the function that it is about, without "MPI_"
  Form form;         // of an access
  bool (Runner::*run)(Random&, const Kind&);
  int weight;  // how often it is drawn
};
const std::vector<Kind>& kinds();

class Runner {
 public:
  // Without a world it calls nothing and only tells what it would do.
  Runner(const Program& program, const World* world);
  void run();
  const std::set<std::string>& called() const { return called_; }  // functions and other classes
  const std::string& listing() const { return listing_; }

  // One member for each kind; false where the file's state does not allow it.
  bool access(Random& random, const Kind& kind);
  bool set_view(Random& random, const Kind& kind);
  bool reopen(Random& random, const Kind& kind);
  bool second_handle(Random& random, const Kind& kind);
  bool delete_file(Random& random, const Kind& kind);
  bool sync(Random& random, const Kind& kind);
  bool complete(Random& random, const Kind& kind);
  bool seek(Random& random, const Kind& kind);
  bool seek_shared(Random& random, const Kind& kind);
  bool get_position(Random& random, const Kind& kind);
  bool get_position_shared(Random& random, const Kind& kind);
  bool get_byte_offset(Random& random, const Kind& kind);
  bool get_view(Random& random, const Kind& kind);
  bool get_size(Random& random, const Kind& kind);
  bool set_size(Random& random, const Kind& kind);
  bool set_atomicity(Random& random, const Kind& kind);
  bool set_info(Random& random, const Kind& kind);
  bool get_info(Random& random, const Kind& kind);
  bool get_amode(Random& random, const Kind& kind);
  bool get_group(Random& random, const Kind& kind);
  bool get_type_extent(Random& random, const Kind& kind);
  bool convert_handle(Random& random, const Kind& kind);
  bool errhandler(Random& random, const Kind& kind);
  bool register_datarep(Random& random, const Kind& kind);
  bool overlapping_atomic(Random& random, const Kind& kind);

 private:
  struct Transfer {
    Form form;
    Memory memory;
    Places file;
    Bytes wanted;            // the memory afterwards
    std::int64_t moved = 0;  // bytes
    MPI_Request request = MPI_REQUEST_NULL;
    std::string what;
  };
  struct Split {
    Form form;
    std::unique_ptr<Transfer> mine;
  };

  bool executes() const { return world_ != nullptr; }
  bool mine(int rank) const { return executes() && world_->rank == rank; }
  int ranks() const { return program_.ranks; }
  void say(const std::string& text);
  void fail(const std::string& text);
  // Notes the call, and where this program is run makes it and expects MPI_SUCCESS.
  void call(const std::string& name, const std::function<int()>& made);
  void note(const std::string& name) { called_.insert(name); }
  void expect_equal(const char* what, std::int64_t got, std::int64_t wanted);
  void barrier();
  int who(std::size_t handle, int rank) const { return static_cast<int>(handle) * kMostRanks + rank; }

  std::size_t any_handle(Random& random);
  MPI_Info random_info(Random& common, int rank, bool opening, std::map<std::string, std::string>& same);
  void open(std::size_t index, Random& random);
  void close(std::size_t index, Random& random);
  int random_amode(Random& random) const;

  bool allowed(const Form& form, const Handle& handle) const;
  // Whether the rank may make the access at the place now.
  bool free_for(const Form& form, int accessor, const Places& places) const;
  Transfer draft(Random& random, const Form& form, std::size_t handle, int rank, std::int64_t position) const;
  void apply(Transfer& transfer, int accessor);
  void execute(std::size_t handle, std::int64_t offset, std::unique_ptr<Transfer> transfer);
  bool race_for_pointer(Random& random, const Form& form, std::size_t handle);
  void inspect_race(std::size_t handle, std::vector<std::vector<Transfer>>& operations);
  static void keep_what_was_read(Transfer& transfer);
  void check(const Transfer& transfer, const MPI_Status& status);

  void end_split(std::size_t handle);
  void end_split_that_moves(std::size_t handle, Place place);
  void finish_pending(Random& random, const std::string& function, bool with_messages);
  std::vector<int> complete(const std::string& function, std::vector<MPI_Request>& requests,
                            std::vector<MPI_Status>& statuses);
  std::vector<int> complete_any(const std::string& function, std::vector<MPI_Request>& requests,
                                std::vector<MPI_Status>& statuses);
  std::vector<int> complete_some(const std::string& function, std::vector<MPI_Request>& requests,
                                 std::vector<MPI_Status>& statuses);
  void give_all(Handle& handle, const View& view);
  std::vector<std::unique_ptr<Transfer>> draft_overlapping(Random& random, const Handle& handle,
                                                           std::vector<std::int64_t>& offsets);
  void settle_order(const std::vector<std::unique_ptr<Transfer>>& operations);
  void synchronize(Random& random, const std::function<void()>& inspect = {});
  Bytes read_file();
  Bytes read_intervals();
  void compare_file();

  const Program& program_;
  const World* world_;
  FileModel file_;
  std::unique_ptr<Phase> phase_ = std::make_unique<Phase>();
  std::array<Handle, 2> handles_;
  std::array<std::optional<Split>, 2> splits_;
  std::vector<std::unique_ptr<Transfer>> pending_;  // this rank's
  bool any_pending_ = false;                        // of any rank
  std::string sieving_writes_;                      // romio_ds_write, one value for a program: it is a promise
  std::set<std::string> called_;
  std::string listing_, step_name_;
  int step_ = 0;
};

}  // namespace stridio::testing
