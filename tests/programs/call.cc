#include "programs/call.h"

#include "mpi/prototypes.h"

namespace stridio::testing {

std::string Form::name() const {
  std::string name = "File_";
  if (mode == Mode::kNonblocking) name += 'i';
  name += writes ? "write" : "read";
  if (place == Place::kExplicit) name += "_at";
  if (place == Place::kShared) name += collective ? "_ordered" : "_shared";
  if (collective && !ordered()) name += "_all";
  if (mode == Mode::kSplit) name += "_begin";
  return large ? name + "_c" : name;
}

std::string Form::end_name() const {
  Form begin = *this;
  begin.large = false;
  std::string name = begin.name();
  return name.replace(name.rfind("begin"), 5, "end");
}

const std::vector<Form>& all_forms() {
  static const std::vector<Form> forms = [] {
    std::vector<Form> all;
    for (const bool writes : {false, true})
      for (const Place place : {Place::kExplicit, Place::kIndividual, Place::kShared})
        for (const bool collective : {false, true})
          for (const Mode mode : {Mode::kBlocking, Mode::kNonblocking, Mode::kSplit})
            for (const bool large : {false, true}) {
              const Form form{writes, place, collective, mode, large};
              if ((mode == Mode::kSplit && !collective) || (mode == Mode::kNonblocking && form.ordered())) continue;
              all.push_back(form);
            }
    return all;
  }();
  return forms;
}

#define AT a.file, a.offset, a.buffer, count
#define HERE a.file, a.buffer, count

namespace {

#define START(read)                                                                                   \
  int start_##read(const Form& form, const Arguments& a, MPI_Status* status, MPI_Request* request) {  \
    const auto count = static_cast<int>(a.count);                                                     \
    switch (form.place) {                                                                             \
      case Place::kExplicit:                                                                          \
        if (form.mode == Mode::kSplit) return BEGIN(read##_at_all_begin, AT);                         \
        if (form.mode == Mode::kNonblocking)                                                          \
          return form.collective ? NONBLOCKING(i##read##_at_all, AT) : NONBLOCKING(i##read##_at, AT); \
        return form.collective ? BLOCKING(read##_at_all, AT) : BLOCKING(read##_at, AT);               \
      case Place::kIndividual:                                                                        \
        if (form.mode == Mode::kSplit) return BEGIN(read##_all_begin, HERE);                          \
        if (form.mode == Mode::kNonblocking)                                                          \
          return form.collective ? NONBLOCKING(i##read##_all, HERE) : NONBLOCKING(i##read, HERE);     \
        return form.collective ? BLOCKING(read##_all, HERE) : BLOCKING(read, HERE);                   \
      case Place::kShared:                                                                            \
        if (form.mode == Mode::kSplit) return BEGIN(read##_ordered_begin, HERE);                      \
        if (form.mode == Mode::kNonblocking) return NONBLOCKING(i##read##_shared, HERE);              \
        return form.collective ? BLOCKING(read##_ordered, HERE) : BLOCKING(read##_shared, HERE);      \
    }                                                                                                 \
    return MPI_ERR_OTHER;                                                                             \
  }
#define CHOOSE(function, ...) (form.large ? MPI_File_##function##_c(__VA_ARGS__) : MPI_File_##function(__VA_ARGS__))
#define BLOCKING(function, ...) CHOOSE(function, __VA_ARGS__, a.datatype, status)
#define NONBLOCKING(function, ...) CHOOSE(function, __VA_ARGS__, a.datatype, request)
#define BEGIN(function, ...) CHOOSE(function, __VA_ARGS__, a.datatype)

START(read)
START(write)

}  // namespace

int start(const Form& form, const Arguments& arguments, MPI_Status* status, MPI_Request* request) {
  return form.writes ? start_write(form, arguments, status, request) : start_read(form, arguments, status, request);
}

int end(const Form& form, MPI_File file, void* buffer, MPI_Status* status) {
  switch (form.place) {
    case Place::kExplicit:
      return form.writes ? MPI_File_write_at_all_end(file, buffer, status)
                         : MPI_File_read_at_all_end(file, buffer, status);
    case Place::kIndividual:
      return form.writes ? MPI_File_write_all_end(file, buffer, status) : MPI_File_read_all_end(file, buffer, status);
    case Place::kShared:
      return form.writes ? MPI_File_write_ordered_end(file, buffer, status)
                         : MPI_File_read_ordered_end(file, buffer, status);
  }
  return MPI_ERR_OTHER;
}

}  // namespace stridio::testing
