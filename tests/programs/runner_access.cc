// The accesses of a program, one by one and in races.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "programs/runner.h"

namespace stridio::testing {

namespace {

constexpr std::int64_t kMostMoved = 1500;  // bytes, by a rank in a call

bool distinct(Places places) {
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) == places.end();
}

std::string extent_text(const Places& places) {
  if (places.empty()) return "nothing";
  const auto [low, high] = std::minmax_element(places.begin(), places.end());
  return "bytes " + std::to_string(*low) + " to " + std::to_string(*high);
}

}  // namespace

bool Runner::allowed(const Form& form, const Handle& handle) const {
  if (!handle.open || !(form.writes ? handle.writes() : handle.reads())) return false;
  if (form.place == Place::kShared) return handle.same_view;
  return !handle.has(MPI_MODE_SEQUENTIAL);
}

bool Runner::free_for(const Form& form, int accessor, const Places& places) const {
  for (const std::int64_t place : places)
    if (place >= kMostFile) return false;
  if (form.writes) return phase_->may_write(accessor, places) && distinct(places);
  // How much is there must be clear: places that jump back from behind the end are not asked for.
  if (file_.available(places) < static_cast<std::int64_t>(places.size()) &&
      !std::is_sorted(places.begin(), places.end()))
    return false;
  return phase_->may_read(accessor, places);
}

Runner::Transfer Runner::draft(Random& random, const Form& form, std::size_t handle, int rank,
                               std::int64_t position) const {
  const View& view = handles_[handle].views[static_cast<std::size_t>(rank)];
  Transfer transfer{form, Memory(random, view, kMostMoved, form.writes), {}, {}, 0, MPI_REQUEST_NULL, {}};
  if (transfer.memory.size() > 0) transfer.file = view.places(position, transfer.memory.size());
  return transfer;
}

// The oracle does it at once: nothing that conflicts with it comes before the next synchronization.
void Runner::apply(Transfer& transfer, int accessor) {
  transfer.wanted = transfer.memory.bytes;
  if (transfer.form.writes) {
    phase_->note_write(accessor, transfer.file);
    file_.write(transfer.file, transfer.memory.data());
    transfer.moved = transfer.memory.size();
    return;
  }
  phase_->note_read(accessor, transfer.file);
  transfer.moved = file_.available(transfer.file);
  for (std::size_t i = 0; i < static_cast<std::size_t>(transfer.moved); ++i)
    transfer.wanted[static_cast<std::size_t>(transfer.memory.places[i])] =
        file_.bytes[static_cast<std::size_t>(transfer.file[i])];
}

void Runner::check(const Transfer& transfer, const MPI_Status& status) {
  const MPI_Datatype type = transfer.memory.type->datatype;
  const auto size = static_cast<std::int64_t>(transfer.memory.type->bytes.size());
  int bytes = -1, count = -1;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != transfer.moved)
    return fail(transfer.what + ": " + std::to_string(bytes) + " bytes by the status, not " +
                std::to_string(transfer.moved));
  MPI_Get_count(&status, type, &count);
  const std::int64_t undefined = MPI_UNDEFINED;
  const std::int64_t wanted = size == 0 ? 0 : transfer.moved % size == 0 ? transfer.moved / size : undefined;
  if (count != wanted)
    return fail(transfer.what + ": MPI_Get_count gives " + std::to_string(count) + ", not " + std::to_string(wanted));
  MPI_Count elements = -1;  // not of the type: MPICH 5.0 divides by zero for MPI_FLOAT_INT
  MPI_Get_elements_x(&status, MPI_BYTE, &elements);
  if (elements != transfer.moved)
    return fail(transfer.what + ": MPI_Get_elements gives " + std::to_string(elements) + ", not " +
                std::to_string(transfer.moved));
  if (transfer.memory.bytes == transfer.wanted) return;
  std::string where = first_difference(transfer.memory.bytes, transfer.wanted, "the memory");
  for (std::size_t i = 0; i < transfer.memory.places.size(); ++i) {
    const auto place = static_cast<std::size_t>(transfer.memory.places[i]);
    if (transfer.memory.bytes[place] == transfer.wanted[place]) continue;
    where += "; first of the data: byte " + std::to_string(i) + ", from byte " + std::to_string(transfer.file[i]) +
             " of the file";
    break;
  }
  fail(transfer.what + ": " + where);
}

void Runner::execute(std::size_t handle, std::int64_t offset, std::unique_ptr<Transfer> transfer) {
  Arguments arguments{handles_[handle].file, offset, transfer->memory.address(), transfer->memory.count,
                      transfer->memory.type->datatype};
  // Now and then all of it as one element at its absolute address.
  Type absolute;
  if (step_ % 5 == 0 && transfer->form.mode != Mode::kSplit && transfer->memory.size() > 0) {
    absolute = transfer->memory.at_its_address();
    arguments.buffer = MPI_BOTTOM;
    arguments.count = 1;
    arguments.datatype = absolute->datatype;
  }
  transfer->what = "MPI_" + transfer->form.name() + " of step " + std::to_string(step_);
  MPI_Status status;
  const bool ignore = transfer->form.mode == Mode::kBlocking && step_ % 8 == 0;
  call(transfer->form.name(),
       [&] { return start(transfer->form, arguments, ignore ? MPI_STATUS_IGNORE : &status, &transfer->request); });
  if (ignore) MPI_Status_set_elements_x(&status, MPI_BYTE, transfer->moved);
  switch (transfer->form.mode) {
    case Mode::kBlocking: return check(*transfer, status);
    case Mode::kNonblocking: pending_.push_back(std::move(transfer)); return;
    case Mode::kSplit: splits_[handle]->mine = std::move(transfer); return;
  }
}

bool Runner::access(Random& random, const Kind& kind) {
  const Form& form = kind.form;
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!allowed(form, handle)) return false;
  if (form.place == Place::kShared && !form.collective) return race_for_pointer(random, form, at);
  if (form.collective) end_split(at);
  end_split_that_moves(at, form.place);
  if (form.ordered()) barrier();  // others may still ask where the pointer is
  say("MPI_" + form.name() + " on handle " + std::to_string(at));
  if (form.mode == Mode::kSplit) {
    splits_[at].emplace();
    splits_[at]->form = form;
  }
  bool any = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    Random own(random());
    if (!form.collective && chance(own, 4)) continue;
    const auto r = static_cast<std::size_t>(rank);
    const View& view = handle.views[r];
    const int accessor = form.mode == Mode::kBlocking ? who(at, rank) : kUnordered;
    std::int64_t position = form.place == Place::kShared ? handle.shared : handle.pointers[r];
    Transfer transfer = draft(own, form, at, rank, position);
    bool fits = form.place != Place::kExplicit && free_for(form, accessor, transfer.file);
    for (int tries = 0; tries < 6 && form.place == Place::kExplicit && !fits; ++tries) {
      const std::int64_t length = transfer.memory.size(), spread = 20 + ranks() * length / view.etype_size * tries;
      std::int64_t offset = pick(own, 0, chance(own, 2) ? 20 : spread);
      if (chance(own, 5) && view.in_order)
        offset = std::max<std::int64_t>(0, view.bytes_below(file_.size()) / view.etype_size - pick(own, 0, 20));
      position = offset * view.etype_size;
      transfer.file = length == 0 ? Places() : view.places(position, length);
      fits = free_for(form, accessor, transfer.file);
    }
    if (!fits && !form.collective) continue;
    if (!fits || chance(own, 8)) {  // takes part with nothing
      transfer.memory.count = 0;
      transfer.memory.places.clear();
      transfer.file.clear();
    }
    any = true;
    apply(transfer, accessor);
    const std::int64_t length = transfer.memory.size();
    if (form.place == Place::kIndividual) handle.pointers[r] += length;
    if (form.place == Place::kShared) handle.shared += length;
    const std::int64_t offset = position / view.etype_size;
    say("   rank " + std::to_string(rank) + ": " + transfer.memory.text() + ", from etype " + std::to_string(offset) +
        ": " + extent_text(transfer.file));
    if (form.mode == Mode::kNonblocking) any_pending_ = true;
    if (mine(rank)) execute(at, offset, std::make_unique<Transfer>(std::move(transfer)));
  }
  if (any && form.mode == Mode::kSplit) note(form.end_name());
  return any;
}

// ---- Split collectives and requests

void Runner::end_split(std::size_t handle) {
  if (!splits_[handle]) return;
  const Form form = splits_[handle]->form;
  say("(MPI_" + form.end_name() + " on handle " + std::to_string(handle) + ")");
  if (executes()) {
    Transfer& transfer = *splits_[handle]->mine;
    MPI_Status status;
    call(form.end_name(), [&] { return end(form, handles_[handle].file, transfer.memory.address(), &status); });
    check(transfer, status);
  }
  splits_[handle].reset();
}

// Until its end it is open whether a split collective has moved its pointer.
void Runner::end_split_that_moves(std::size_t handle, Place place) {
  if (splits_[handle] && place != Place::kExplicit && splits_[handle]->form.place == place) end_split(handle);
}

bool Runner::complete(Random& random, const Kind& kind) {
  if (!any_pending_) return false;
  const bool with_messages = chance(random, 2) && kind.name.find("all") != std::string::npos;
  say("MPI_" + kind.name + (with_messages ? ", with messages to the next rank" : ""));
  finish_pending(random, kind.name, with_messages);
  return true;
}

// All of this rank's, by one of the completing functions; any one where none is named.
void Runner::finish_pending(Random& random, const std::string& given, bool with_messages) {
  static constexpr std::array<const char*, 9> kFunctions = {
      "Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome", "Request_get_status"};
  const std::string function = given.empty() ? kFunctions[static_cast<std::size_t>(pick(random, 0, 8))] : given;
  if (!any_pending_) return;
  any_pending_ = false;
  note(function);
  if (!executes()) return;
  std::vector<MPI_Request> requests;
  for (const auto& transfer : pending_) requests.push_back(transfer->request);
  std::array<int, 2> token = {world_->rank, -1};
  const int next = (world_->rank + 1) % ranks(), previous = (world_->rank + ranks() - 1) % ranks();
  if (with_messages) {
    requests.emplace_back();
    MPI_Irecv(&token[1], 1, MPI_INT, previous, 9, world_->comm, &requests.back());
    requests.emplace_back();
    MPI_Isend(token.data(), 1, MPI_INT, next, 9, world_->comm, &requests.back());
  }
  std::vector<MPI_Status> statuses(requests.size());
  std::vector<int> done = complete(function, requests, statuses);
  if (done.size() < requests.size()) return;
  std::sort(done.begin(), done.end());
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (done[i] != static_cast<int>(i)) fail("MPI_" + function + " completes a request twice");
  for (const MPI_Request request : requests)
    if (request != MPI_REQUEST_NULL) fail("MPI_" + function + " leaves a request");
  for (std::size_t i = 0; i < pending_.size(); ++i) check(*pending_[i], statuses[i]);
  if (with_messages) expect_equal("the message", token[1], previous);
  pending_.clear();
}

// By a function that completes requests. Which were completed, in their order; not all where it gives what cannot be.
std::vector<int> Runner::complete(const std::string& function, std::vector<MPI_Request>& requests,
                                  std::vector<MPI_Status>& statuses) {
  if (function == "Waitany" || function == "Testany") return complete_any(function, requests, statuses);
  if (function == "Waitsome" || function == "Testsome") return complete_some(function, requests, statuses);
  const int count = static_cast<int>(requests.size());
  int flag = 0;
  if (function == "Waitall") call(function, [&] { return MPI_Waitall(count, requests.data(), statuses.data()); });
  if (function == "Testall")
    while (!flag) call(function, [&] { return MPI_Testall(count, requests.data(), &flag, statuses.data()); });
  const bool all = function == "Waitall" || function == "Testall";
  for (std::size_t i = 0; i < requests.size() && !all; ++i) {
    flag = 0;
    while (!flag && function == "Request_get_status")
      call(function, [&] { return MPI_Request_get_status(requests[i], &flag, &statuses[i]); });
    flag = 0;
    while (!flag && function == "Test") call(function, [&] { return MPI_Test(&requests[i], &flag, &statuses[i]); });
    if (function != "Test") call("Wait", [&] { return MPI_Wait(&requests[i], &statuses[i]); });
  }
  std::vector<int> done(requests.size());
  std::iota(done.begin(), done.end(), 0);
  return done;
}

std::vector<int> Runner::complete_any(const std::string& function, std::vector<MPI_Request>& requests,
                                      std::vector<MPI_Status>& statuses) {
  const int count = static_cast<int>(requests.size());
  std::vector<int> done;
  while (static_cast<int>(done.size()) < count) {
    MPI_Status status;
    int flag = 0, index = 0;
    if (function == "Waitany") call(function, [&] { return MPI_Waitany(count, requests.data(), &index, &status); });
    while (!flag && function == "Testany")
      call(function, [&] { return MPI_Testany(count, requests.data(), &index, &flag, &status); });
    if (index < 0 || index >= count) {
      fail("MPI_" + function + " gives index " + std::to_string(index));
      break;
    }
    statuses[static_cast<std::size_t>(index)] = status;
    done.push_back(index);
  }
  return done;
}

std::vector<int> Runner::complete_some(const std::string& function, std::vector<MPI_Request>& requests,
                                       std::vector<MPI_Status>& statuses) {
  const int count = static_cast<int>(requests.size());
  std::vector<int> done, indices(requests.size());
  std::vector<MPI_Status> of_some(requests.size());
  while (static_cast<int>(done.size()) < count) {
    int some = 0;
    call(function, [&] {
      return function == "Waitsome" ? MPI_Waitsome(count, requests.data(), &some, indices.data(), of_some.data())
                                    : MPI_Testsome(count, requests.data(), &some, indices.data(), of_some.data());
    });
    if (some < 0 || some > count) {
      fail("MPI_" + function + " completes " + std::to_string(some));
      break;
    }
    for (int i = 0; i < some; ++i) {
      const int which = indices[static_cast<std::size_t>(i)];
      statuses[static_cast<std::size_t>(which)] = of_some[static_cast<std::size_t>(i)];
      done.push_back(which);
    }
  }
  return done;
}

// ---- Races: any legal outcome is right

// Independent accesses through the shared file pointer, by several ranks at once.
bool Runner::race_for_pointer(Random& random, const Form& form, std::size_t at) {
  Handle& handle = handles_[at];
  synchronize(random);
  say("MPI_" + form.name() + " on handle " + std::to_string(at) + ", by ranks at once");
  std::vector<std::vector<Transfer>> operations(static_cast<std::size_t>(ranks()));
  std::int64_t total = 0;
  bool any_writes = false, any_reads = false;
  const bool one_rank = chance(random, 5), mixed = chance(random, 3);
  const auto chosen = pick(random, 0, ranks() - 1);
  for (int rank = 0; rank < ranks(); ++rank) {
    Random own(random());
    if (one_rank ? rank != chosen : chance(own, 4)) continue;
    for (auto left = pick(own, 1, 3); left > 0; --left) {
      Form variant = form;
      if (!operations[static_cast<std::size_t>(rank)].empty()) {
        variant.mode = chance(own, 2) ? Mode::kBlocking : Mode::kNonblocking;
        variant.large = chance(own, 2);
        if (mixed) variant.writes = chance(own, 2);
      }
      if (!allowed(variant, handle)) continue;
      Transfer transfer = draft(own, variant, at, rank, 0);
      total += transfer.memory.size();
      (variant.writes ? any_writes : any_reads) = true;
      say("   rank " + std::to_string(rank) + ": MPI_" + variant.name() + " " + transfer.memory.text());
      operations[static_cast<std::size_t>(rank)].push_back(std::move(transfer));
    }
  }
  const View& view = handle.views[0];
  const Places all = total == 0 ? Places() : view.places(handle.shared, total);
  Form whole = form;
  whole.writes = any_writes;
  // What a read finds must not depend on a write behind the end.
  if ((any_writes && any_reads && file_.available(all) < total) || !free_for(whole, kUnordered, all)) return false;
  for (const auto& rank : operations)
    for (const Transfer& transfer : rank) note(transfer.form.name());
  note("race for the shared file pointer");
  if (executes()) {
    std::vector<MPI_Request> requests;
    std::vector<std::size_t> of;
    auto& own = operations[static_cast<std::size_t>(world_->rank)];
    std::vector<MPI_Status> statuses(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      Transfer& transfer = own[i];
      const Arguments arguments{handle.file, 0, transfer.memory.address(), transfer.memory.count,
                                transfer.memory.type->datatype};
      transfer.wanted = transfer.memory.bytes;
      call(transfer.form.name(), [&] { return start(transfer.form, arguments, &statuses[i], &transfer.request); });
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i].form.mode == Mode::kNonblocking) call("Wait", [&] { return MPI_Wait(&own[i].request, &statuses[i]); });
      int moved = -1;
      MPI_Get_count(&statuses[i], MPI_BYTE, &moved);
      own[i].moved = moved;
    }
  }
  handle.shared += total;
  synchronize(random, [&] { inspect_race(at, operations); });
  return true;
}

namespace {

// Whether the operations, each rank's in their order, make up [0, total) of the race's data one behind the other.
class PointerOrder {
 public:
  struct Part {
    bool writes;
    std::int64_t length, moved;
    Bytes data;
  };
  PointerOrder(std::vector<std::vector<Part>> ranks, Bytes before, Bytes after, std::int64_t available)
      : ranks_(std::move(ranks)),
        before_(std::move(before)),
        after_(std::move(after)),
        available_(available),
        next_(ranks_.size(), 0) {}

  bool exists(std::int64_t position = 0) {
    bool all_done = true;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (next_[r] == ranks_[r].size()) continue;
      all_done = false;
      const Part& part = ranks_[r][next_[r]];
      if (!fits(part, position)) continue;
      ++next_[r];
      if (failed_.count(next_) == 0 && exists(position + part.length)) return true;
      --next_[r];
    }
    if (!all_done) failed_.insert(next_);
    return all_done;
  }

 private:
  bool fits(const Part& part, std::int64_t position) const {
    const std::int64_t there =
        part.writes ? part.length : std::clamp<std::int64_t>(available_ - position, 0, part.length);
    if (part.moved != there) return false;
    const Bytes& file = part.writes ? after_ : before_;
    return std::equal(part.data.begin(), part.data.begin() + there,
                      file.begin() + std::min<std::int64_t>(position, static_cast<std::int64_t>(file.size())));
  }

  std::vector<std::vector<Part>> ranks_;
  Bytes before_, after_;  // of the race's data
  std::int64_t available_;
  std::vector<std::size_t> next_;
  std::set<std::vector<std::size_t>> failed_;
};

}  // namespace

// What a read of a race got is judged together with the others; the rest of its memory must be as it was.
void Runner::keep_what_was_read(Transfer& transfer) {
  const std::int64_t moved = std::clamp<std::int64_t>(transfer.moved, 0, transfer.memory.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(moved); ++i) {
    const auto place = static_cast<std::size_t>(transfer.memory.places[i]);
    transfer.wanted[place] = transfer.memory.bytes[place];
  }
}

// All ranks have synchronized: the file holds the outcome. Each shows what it got; the first looks for an order.
void Runner::inspect_race(std::size_t at, std::vector<std::vector<Transfer>>& operations) {
  std::int64_t total = 0;
  bool writes = false;
  for (const auto& rank : operations)
    for (const Transfer& transfer : rank) {
      total += transfer.memory.size();
      writes = writes || transfer.form.writes;
    }
  const View& view = handles_[at].views[0];
  const Places all = total == 0 ? Places() : view.places(handles_[at].shared - total, total);
  const auto take = [&all](const Bytes& file) {
    Bytes taken;
    for (const std::int64_t place : all)
      taken.push_back(static_cast<std::size_t>(place) < file.size() ? file[static_cast<std::size_t>(place)] : 0);
    return taken;
  };
  const std::int64_t available = file_.available(all);
  const Bytes before = take(file_.bytes);
  const Bytes after = executes() ? take(read_file()) : before;
  if (executes()) {
    auto& own = operations[static_cast<std::size_t>(world_->rank)];
    unsigned char* out = world_->board.ranks[static_cast<std::size_t>(world_->rank)].data.data();
    for (Transfer& transfer : own) {
      if (!transfer.form.writes) keep_what_was_read(transfer);
      if (const std::string differs = first_difference(transfer.memory.bytes, transfer.wanted, "the memory");
          !differs.empty())
        fail("MPI_" + transfer.form.name() + ": outside of its data " + differs);
      std::memcpy(out, &transfer.moved, sizeof transfer.moved);
      out += sizeof transfer.moved;
      const Bytes data = transfer.memory.data();
      out = std::copy(data.begin(), data.end(), out);
    }
    barrier();
    if (world_->rank == 0) {
      std::vector<std::vector<PointerOrder::Part>> parts(operations.size());
      for (std::size_t r = 0; r < operations.size(); ++r) {
        const unsigned char* in = world_->board.ranks[r].data.data();
        for (const Transfer& transfer : operations[r]) {
          PointerOrder::Part part{transfer.form.writes, transfer.memory.size(), 0, {}};
          std::memcpy(&part.moved, in, sizeof part.moved);
          in += sizeof part.moved;
          part.data.assign(in, in + part.length);
          in += part.length;
          parts[r].push_back(std::move(part));
        }
      }
      if (!PointerOrder(std::move(parts), before, after, available).exists())
        fail("no order of the accesses gives what is in the file and what was read");
    }
    barrier();
  }
  if (writes) file_.write(all, after);
}

bool Runner::overlapping_atomic(Random& random, const Kind&) {
  Handle& handle = handles_[0];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL) || !handle.writes()) return false;
  synchronize(random);
  if (!handle.atomic) {
    handle.atomic = true;
    say("MPI_File_set_atomicity on handle 0: true");
    call("File_set_atomicity", [&] { return MPI_File_set_atomicity(handle.file, 1); });
  }
  if (chance(random, 2)) give_all(handle, striped_view(random));  // many requests each, so that they meet
  std::vector<std::int64_t> offsets;
  const auto operations = draft_overlapping(random, handle, offsets);
  if (executes()) {
    const auto r = static_cast<std::size_t>(world_->rank);
    Transfer& own = *operations[r];
    const Arguments arguments{handle.file, offsets[r], own.memory.address(), own.memory.count,
                              own.memory.type->datatype};
    MPI_Status status;
    own.what = "MPI_" + own.form.name();
    own.wanted = own.memory.bytes;
    call(own.form.name(), [&] { return start(own.form, arguments, &status, &own.request); });
    if (own.form.mode == Mode::kNonblocking) call("Wait", [&] { return MPI_Wait(&own.request, &status); });
    if (!own.form.writes) keep_what_was_read(own);
    check(own, status);
  }
  synchronize(random, [&] { settle_order(operations); });
  return true;
}

// A view that all ranks have.
void Runner::give_all(Handle& handle, const View& view) {
  say("MPI_File_set_view on handle 0, all: " + view.text());
  call("File_set_view", [&] {
    return MPI_File_set_view(handle.file, view.displacement, view.etype->datatype, view.filetype->datatype, "native",
                             MPI_INFO_NULL);
  });
  handle.views.assign(handle.views.size(), view);
  handle.same_view = true;
  handle.datarep = "native";
  std::fill(handle.pointers.begin(), handle.pointers.end(), 0);
  handle.shared = 0;
}

// One access a rank, near the beginning. `offsets`: in etypes, of each.
std::vector<std::unique_ptr<Runner::Transfer>> Runner::draft_overlapping(Random& random, const Handle& handle,
                                                                         std::vector<std::int64_t>& offsets) {
  Form form{true, Place::kExplicit, chance(random, 4), Mode::kBlocking, chance(random, 2)};
  if (chance(random, 4)) form.mode = Mode::kNonblocking;
  say("overlapping in atomic mode, MPI_" + form.name() + " and others");
  const bool mixed = !form.collective && handle.reads() && chance(random, 2);
  const auto start_at = pick(random, 0, 30);
  std::vector<std::unique_ptr<Transfer>> operations;
  for (int rank = 0; rank < ranks(); ++rank) {
    Random own(random());
    Form variant = form;
    if (mixed && chance(own, 3)) variant.writes = false;
    offsets.push_back(start_at + pick(own, 0, 8));
    const std::int64_t etype = handle.views[static_cast<std::size_t>(rank)].etype_size;
    auto transfer = std::make_unique<Transfer>(draft(own, variant, 0, rank, offsets.back() * etype));
    const bool inside =
        std::all_of(transfer->file.begin(), transfer->file.end(), [](auto place) { return place < kMostFile; });
    const bool there = variant.writes || file_.available(transfer->file) == transfer->memory.size();
    if (!inside || !there || !distinct(transfer->file)) {
      transfer->memory.count = 0;
      transfer->memory.places.clear();
      transfer->file.clear();
    }
    transfer->moved = transfer->memory.size();
    note(variant.name());
    say("   rank " + std::to_string(rank) + ": MPI_" + variant.name() + " " + transfer->memory.text() +
        ", from etype " + std::to_string(offsets.back()) + ": " + extent_text(transfer->file));
    operations.push_back(std::move(transfer));
  }
  return operations;
}

// What is there now must be what some order of the accesses leaves; the model goes on with it.
void Runner::settle_order(const std::vector<std::unique_ptr<Transfer>>& operations) {
  Places written;
  for (const auto& operation : operations)
    if (operation->form.writes) written.insert(written.end(), operation->file.begin(), operation->file.end());
  Bytes after = file_.bytes;
  if (executes()) {
    auto& told = world_->board.ranks;
    const auto self = static_cast<std::size_t>(world_->rank);
    const Bytes data = operations[self]->memory.data();
    std::copy(data.begin(), data.end(), told[self].data.begin());
    after = read_file();
    barrier();
    if (world_->rank == 0) {
      std::vector<std::vector<Observed>> seen;
      for (std::size_t r = 0; r < operations.size(); ++r) {
        const auto& places = operations[r]->file;
        const auto begin = told[r].data.begin();
        seen.push_back(
            {{operations[r]->form.writes, places, Bytes(begin, begin + static_cast<std::ptrdiff_t>(places.size()))}});
      }
      if (!some_serial_order(seen, file_.bytes, after)) fail("no serial order of the accesses gives what is there now");
    }
    barrier();
  }
  Bytes data;
  for (const std::int64_t place : written)
    data.push_back(static_cast<std::size_t>(place) < after.size() ? after[static_cast<std::size_t>(place)] : 0);
  file_.write(written, data);
}

}  // namespace stridio::testing
