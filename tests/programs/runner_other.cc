// Views, pointers, and everything else that a program asks of a file; and the table of all kinds of steps.
#include <algorithm>
#include <cstring>

#include "mpi/prototypes.h"
#include "programs/runner.h"

namespace stridio::testing {
namespace {

// Both are right in a file that one kind of machine reads and writes. Others find their place here.
const char* random_datarep(Random& random) { return chance(random, 4) ? "internal" : "native"; }

struct TypeShape {
  int size = -1;
  MPI_Count lb = -1, extent = -1, true_lb = -1, true_extent = -1;
  bool operator==(const TypeShape&) const = default;
};

TypeShape shape_of(MPI_Datatype type) {
  TypeShape shape;
  MPI_Type_size(type, &shape.size);
  MPI_Type_get_extent_x(type, &shape.lb, &shape.extent);
  MPI_Type_get_true_extent_x(type, &shape.true_lb, &shape.true_extent);
  return shape;
}

void free_unless_named(MPI_Datatype type) {
  int integers, addresses, types, combiner;
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&type);
}

int handler_calls = 0, handler_code = 0;
MPI_File handler_file = MPI_FILE_NULL;
void count_call(MPI_File* file, int* code, ...) {
  ++handler_calls;
  handler_file = *file;
  handler_code = *code;
}

int extent_of_datarep(MPI_Datatype, MPI_Aint* extent, void*) {
  *extent = 1;
  return MPI_SUCCESS;
}

}  // namespace

bool Runner::set_view(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!handle.open) return false;
  finish_pending(random, "", false);
  end_split(at);
  const bool sequential = handle.has(MPI_MODE_SEQUENTIAL);
  if (sequential && !handle.same_view) return false;
  const bool same = sequential || chance(random, 2);
  std::vector<View> views = random_views(random, ranks(), same, !handle.writes());
  if (sequential) {
    barrier();  // the displacement is where the shared pointer is
    const View& old = handle.views[0];
    const std::int64_t here = old.tile.empty() ? old.displacement : old.places(handle.shared, 1)[0];
    for (View& view : views) view.displacement = here;
  }
  std::map<std::string, std::string> hints = handle.hints;
  const bool with_hints = chance(random, 6);
  MPI_Info info = MPI_INFO_NULL;
  if (with_hints) info = random_info(random, executes() ? world_->rank : 0, false, hints);
  const char* datarep = random_datarep(random);
  say("MPI_File_set_view on handle " + std::to_string(at) + ", " + datarep);
  for (int rank = 0; rank < (same ? 1 : ranks()); ++rank)
    say("   " + (same ? "all" : "rank " + std::to_string(rank)) + ": " + views[static_cast<std::size_t>(rank)].text());
  if (with_hints)
    for (const auto& [name, value] : hints) say("   hint " + name + "=" + value);
  call("File_set_view", [&] {
    const View& mine = views[static_cast<std::size_t>(world_->rank)];
    return MPI_File_set_view(handle.file, sequential ? MPI_DISPLACEMENT_CURRENT : mine.displacement,
                             mine.etype->datatype, mine.filetype->datatype, datarep, info);
  });
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  handle.hints = hints;
  handle.views = std::move(views);
  handle.same_view = same;
  handle.datarep = datarep;
  std::fill(handle.pointers.begin(), handle.pointers.end(), 0);
  handle.shared = 0;
  return true;
}

bool Runner::get_view(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_File_get_view");
  MPI_Offset displacement = -1;
  MPI_Datatype etype = MPI_DATATYPE_NULL, filetype = MPI_DATATYPE_NULL;
  std::array<char, MPI_MAX_DATAREP_STRING + 1> datarep = {};
  call("File_get_view",
       [&] { return MPI_File_get_view(handle.file, &displacement, &etype, &filetype, datarep.data()); });
  if (!executes() || etype == MPI_DATATYPE_NULL) return true;
  const View& view = handle.views[static_cast<std::size_t>(world_->rank)];
  expect_equal("the displacement", displacement, view.displacement);
  if (!(shape_of(etype) == shape_of(view.etype->datatype))) fail("another etype");
  if (!(shape_of(filetype) == shape_of(view.filetype->datatype))) fail("another file type");
  if (handle.datarep != datarep.data()) fail(std::string("the data representation is ") + datarep.data());
  free_unless_named(etype);
  free_unless_named(filetype);
  return true;
}

// ---- Pointers

bool Runner::seek(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL)) return false;
  end_split_that_moves(at, Place::kIndividual);
  say("MPI_File_seek on handle " + std::to_string(at));
  const bool spread = chance(random, 2);
  for (int rank = 0; rank < ranks(); ++rank) {
    Random own(random());
    if (chance(own, 4)) continue;
    const View& view = handle.views[static_cast<std::size_t>(rank)];
    std::int64_t& pointer = handle.pointers[static_cast<std::size_t>(rank)];
    std::int64_t from = 0, target = pick(own, 0, 40) + (spread ? rank * 600 / view.etype_size : 0);
    int whence = MPI_SEEK_SET;
    std::string name = "SET";
    if (const auto way = pick(own, 0, 3); way == 1) {
      whence = MPI_SEEK_CUR;
      name = "CUR";
      from = pointer / view.etype_size;
    } else if (way == 2 && view.in_order && phase_->may_read_size(who(at, rank))) {
      whence = MPI_SEEK_END;
      name = "END";
      from = (view.bytes_below(file_.size()) + view.etype_size - 1) / view.etype_size;
      target = std::max<std::int64_t>(0, from - pick(own, -10, 30));
      phase_->note_size_read(who(at, rank));
    }
    pointer = target * view.etype_size;
    say("   rank " + std::to_string(rank) + ": " + std::to_string(target - from) + " from " + name + ", to " +
        std::to_string(target));
    note("File_seek");
    if (mine(rank)) call("File_seek", [&] { return MPI_File_seek(handle.file, target - from, whence); });
  }
  return true;
}

bool Runner::seek_shared(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL) || !handle.same_view) return false;
  end_split(at);
  const View& view = handle.views[0];
  std::int64_t from = 0, target = pick(random, 0, 60);
  int whence = MPI_SEEK_SET;
  if (chance(random, 3)) {
    whence = MPI_SEEK_CUR;
    from = handle.shared / view.etype_size;
  } else if (chance(random, 3) && view.in_order && phase_->may_read_size(kUnordered)) {
    whence = MPI_SEEK_END;
    from = (view.bytes_below(file_.size()) + view.etype_size - 1) / view.etype_size;
    target = std::max<std::int64_t>(0, from - pick(random, -5, 30));
    phase_->note_size_read(kUnordered);
  }
  handle.shared = target * view.etype_size;
  say("MPI_File_seek_shared on handle " + std::to_string(at) + " to " + std::to_string(target) + ", " +
      std::to_string(target - from) + " from " +
      (whence == MPI_SEEK_SET   ? "SET"
       : whence == MPI_SEEK_CUR ? "CUR"
                                : "END"));
  barrier();  // others may still ask where the pointer is
  call("File_seek_shared", [&] { return MPI_File_seek_shared(handle.file, target - from, whence); });
  return true;
}

bool Runner::get_position(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  const Handle& handle = handles_[at];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL)) return false;
  end_split_that_moves(at, Place::kIndividual);
  say("MPI_File_get_position on handle " + std::to_string(at));
  MPI_Offset position = -1;
  call("File_get_position", [&] { return MPI_File_get_position(handle.file, &position); });
  if (!executes()) return true;
  const auto rank = static_cast<std::size_t>(world_->rank);
  expect_equal("the position", position, handle.pointers[rank] / handle.views[rank].etype_size);
  return true;
}

bool Runner::get_position_shared(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  const Handle& handle = handles_[at];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL) || !handle.same_view) return false;
  end_split_that_moves(at, Place::kShared);
  say("MPI_File_get_position_shared on handle " + std::to_string(at));
  MPI_Offset position = -1;
  call("File_get_position_shared", [&] { return MPI_File_get_position_shared(handle.file, &position); });
  expect_equal("the shared position", position, handle.shared / handle.views[0].etype_size);
  return true;
}

bool Runner::get_byte_offset(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open || handle.has(MPI_MODE_SEQUENTIAL)) return false;
  say("MPI_File_get_byte_offset");
  note("File_get_byte_offset");
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t offset = pick(random, 0, 100);
    const View& view = handle.views[static_cast<std::size_t>(rank)];
    if (view.tile.empty() || !mine(rank)) continue;
    MPI_Offset byte = -1;
    call("File_get_byte_offset", [&] { return MPI_File_get_byte_offset(handle.file, offset, &byte); });
    expect_equal("the byte of the etype", byte, view.places(offset * view.etype_size, 1)[0]);
  }
  return true;
}

// ---- Sizes and consistency

bool Runner::get_size(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  if (!handles_[at].open) return false;
  bool any = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!phase_->may_read_size(who(at, rank))) continue;
    any = true;
    phase_->note_size_read(who(at, rank));
    if (!mine(rank)) continue;
    MPI_Offset size = -1;
    call("File_get_size", [&] { return MPI_File_get_size(handles_[at].file, &size); });
    expect_equal("the size", size, file_.size());
  }
  say("MPI_File_get_size: " + std::to_string(file_.size()));
  return any;
}

// Also preallocate.
bool Runner::set_size(Random& random, const Kind& kind) {
  const std::size_t at = any_handle(random);
  const Handle& handle = handles_[at];
  if (!handle.open || !handle.writes() || handle.has(MPI_MODE_SEQUENTIAL)) return false;
  synchronize(random);
  const bool grows_only = kind.name == "File_preallocate";
  const std::int64_t size = chance(random, 8) ? 0 : pick(random, 0, std::min(kMostFile, file_.size() + 1000));
  say("MPI_" + kind.name + " on handle " + std::to_string(at) + ": " + std::to_string(size));
  call(kind.name,
       [&] { return grows_only ? MPI_File_preallocate(handle.file, size) : MPI_File_set_size(handle.file, size); });
  if (!grows_only || size > file_.size()) file_.bytes.resize(static_cast<std::size_t>(size));
  synchronize(random);
  return true;
}

bool Runner::set_atomicity(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!handle.open) return false;
  synchronize(random);
  handle.atomic = !handle.atomic || chance(random, 4);
  say("MPI_File_set_atomicity on handle " + std::to_string(at) + ": " + (handle.atomic ? "true" : "false"));
  call("File_set_atomicity", [&] { return MPI_File_set_atomicity(handle.file, handle.atomic ? 1 : 0); });
  int flag = -1;
  call("File_get_atomicity", [&] { return MPI_File_get_atomicity(handle.file, &flag); });
  expect_equal("the atomicity", flag, handle.atomic ? 1 : 0);
  return true;
}

// ---- What a file tells about itself

bool Runner::set_info(Random& random, const Kind&) {
  const std::size_t at = any_handle(random);
  Handle& handle = handles_[at];
  if (!handle.open) return false;
  MPI_Info info = random_info(random, executes() ? world_->rank : 0, false, handle.hints);
  std::string text = "MPI_File_set_info on handle " + std::to_string(at) + ":";
  for (const auto& [name, value] : handle.hints) text += " " + name + "=" + value;
  say(text);
  call("File_set_info", [&] { return MPI_File_set_info(handle.file, info); });
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  return true;
}

bool Runner::get_info(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_File_get_info");
  MPI_Info info = MPI_INFO_NULL;
  call("File_get_info", [&] { return MPI_File_get_info(handle.file, &info); });
  if (info == MPI_INFO_NULL) return true;
  for (const auto& [name, value] : handle.hints) {
    std::array<char, 64> got = {};
    int found = 0;
    MPI_Info_get(info, name.c_str(), static_cast<int>(got.size() - 1), got.data(), &found);
    if (!found || value != got.data()) fail("hint " + name + " is \"" + got.data() + "\", not " + value);
  }
  MPI_Info_free(&info);
  return true;
}

bool Runner::get_amode(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_File_get_amode");
  int amode = -1;
  call("File_get_amode", [&] { return MPI_File_get_amode(handle.file, &amode); });
  expect_equal("the access mode", amode, handle.amode);
  return true;
}

bool Runner::get_group(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_File_get_group");
  MPI_Group group = MPI_GROUP_NULL, wanted;
  call("File_get_group", [&] { return MPI_File_get_group(handle.file, &group); });
  if (group == MPI_GROUP_NULL) return true;
  int same = MPI_UNEQUAL;
  MPI_Comm_group(world_->comm, &wanted);
  MPI_Group_compare(group, wanted, &same);
  if (same != MPI_IDENT) fail("another group");
  MPI_Group_free(&group);
  MPI_Group_free(&wanted);
  return true;
}

bool Runner::get_type_extent(Random& random, const Kind& kind) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_" + kind.name);
  const Type type = owned(random_datatype(random, {.depth = 2}));
  const std::int64_t wanted = extent_of(type->datatype);
  if (kind.name == "File_get_type_extent") {
    MPI_Aint extent = -1;
    call(kind.name, [&] { return MPI_File_get_type_extent(handle.file, type->datatype, &extent); });
    expect_equal("the extent", extent, wanted);
  } else {
    MPI_Count extent = -1;
    call(kind.name, [&] { return MPI_File_get_type_extent_c(handle.file, type->datatype, &extent); });
    expect_equal("the extent", extent, wanted);
  }
  return true;
}

bool Runner::convert_handle(Random& random, const Kind& kind) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("MPI_" + kind.name + " and back");
  MPI_File back = MPI_FILE_NULL;
  call(kind.name, [&] {
    back = kind.name == "File_c2f" ? MPI_File_f2c(MPI_File_c2f(handle.file))
                                   : MPI_File_fromint(MPI_File_toint(handle.file));
    return MPI_SUCCESS;
  });
  if (executes() && back != handle.file) fail("another handle");
  return true;
}

bool Runner::errhandler(Random& random, const Kind&) {
  const Handle& handle = handles_[any_handle(random)];
  if (!handle.open) return false;
  say("an error handler, set, got and called");
  MPI_Errhandler made = MPI_ERRHANDLER_NULL, got = MPI_ERRHANDLER_NULL;
  handler_calls = 0;
  call("File_create_errhandler", [&] { return MPI_File_create_errhandler(count_call, &made); });
  call("File_set_errhandler", [&] { return MPI_File_set_errhandler(handle.file, made); });
  call("File_get_errhandler", [&] { return MPI_File_get_errhandler(handle.file, &got); });
  call("File_call_errhandler", [&] { return MPI_File_call_errhandler(handle.file, MPI_ERR_IO); });
  if (!executes()) return true;
  expect_equal("the handler's calls", handler_calls, 1);
  expect_equal("the handler's code", handler_code, MPI_ERR_IO);
  if (handler_file != handle.file) fail("the handler gets another file");
  MPI_Offset size = -1;
  handler_calls = 0;
  if (MPI_File_set_view(MPI_FILE_NULL, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == MPI_SUCCESS)
    fail("MPI_FILE_NULL is taken for a file");
  expect_equal("the handler's calls for another file", handler_calls, 0);
  if (MPI_File_get_byte_offset(handle.file, -1, &size) == MPI_SUCCESS) fail("a negative offset is taken");
  expect_equal("the handler's calls for an error", handler_calls, 1);
  call("File_set_errhandler", [&] { return MPI_File_set_errhandler(handle.file, MPI_ERRORS_RETURN); });
  if (got != made) fail("another handler");
  MPI_Errhandler_free(&got);
  MPI_Errhandler_free(&made);
  return true;
}

bool Runner::register_datarep(Random&, const Kind& kind) {
  say("MPI_" + kind.name);
  static int number = 0;
  const std::string name = "programs-" + std::to_string(++number);
  call(kind.name, [&] {
#if defined(OPEN_MPI)
    return MPI_Register_datarep(name.c_str(), MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of_datarep,
                                nullptr);
#else
    return kind.name == "Register_datarep"
               ? MPI_Register_datarep(name.c_str(), MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of_datarep, nullptr)
               : MPI_Register_datarep_c(name.c_str(), MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, extent_of_datarep, nullptr);
#endif
  });
  return true;
}

// ---- The table

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = [] {
    std::vector<Kind> all;
    for (const Form& form : all_forms()) {
      const bool rare = form.ordered() || (form.place == Place::kIndividual && !form.collective) || !form.writes;
      all.push_back({form.name(), form, &Runner::access, rare ? 6 : 5});
    }
    const auto add = [&](const char* name, bool (Runner::*run)(Random&, const Kind&), int weight) {
      all.push_back({name, {}, run, weight});
    };
    add("File_set_view", &Runner::set_view, 50);
    add("File_sync", &Runner::sync, 40);
    for (const char* name :
         {"Wait", "Test", "Waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome", "Request_get_status"})
      add(name, &Runner::complete, 6);
    add("File_open", &Runner::reopen, 12);
    add("second handle", &Runner::second_handle, 12);
    add("File_delete", &Runner::delete_file, 4);
    add("File_seek", &Runner::seek, 20);
    add("File_seek_shared", &Runner::seek_shared, 10);
    add("File_get_position", &Runner::get_position, 6);
    add("File_get_position_shared", &Runner::get_position_shared, 6);
    add("File_get_byte_offset", &Runner::get_byte_offset, 5);
    add("File_get_view", &Runner::get_view, 5);
    add("File_get_size", &Runner::get_size, 5);
    add("File_set_size", &Runner::set_size, 5);
    add("File_preallocate", &Runner::set_size, 5);
    add("File_set_atomicity", &Runner::set_atomicity, 10);
    add("overlapping atomic accesses", &Runner::overlapping_atomic, 10);
    add("File_set_info", &Runner::set_info, 5);
    add("File_get_info", &Runner::get_info, 5);
    add("File_get_amode", &Runner::get_amode, 5);
    add("File_get_group", &Runner::get_group, 5);
    add("File_get_type_extent", &Runner::get_type_extent, 5);
    add("File_get_type_extent_c", &Runner::get_type_extent, 5);
    add("File_c2f", &Runner::convert_handle, 5);
    add("File_toint", &Runner::convert_handle, 5);
    add("File_set_errhandler", &Runner::errhandler, 5);
    add("Register_datarep", &Runner::register_datarep, 5);
    add("Register_datarep_c", &Runner::register_datarep, 5);
    return all;
  }();
  return table;
}

}  // namespace stridio::testing
