// The read and write families as values: what a call is, its name, and how it is made.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace stridio::testing {

enum class Place { kExplicit, kIndividual, kShared };
enum class Mode { kBlocking, kNonblocking, kSplit };

struct Form {
  bool writes = false;
  Place place = Place::kExplicit;
  bool collective = false;
  Mode mode = Mode::kBlocking;
  bool large = false;  // with MPI_Count

  std::string name() const;      // of the function that starts it, without "MPI_"
  std::string end_name() const;  // of a split one's end
  bool ordered() const { return place == Place::kShared && collective; }
};

// Every read and write function there is.
const std::vector<Form>& all_forms();

struct Arguments {
  MPI_File file;
  MPI_Offset offset;
  void* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
};

// The status is of a blocking call, the request of a nonblocking one.
int start(const Form& form, const Arguments& arguments, MPI_Status* status, MPI_Request* request);
int end(const Form& form, MPI_File file, void* buffer, MPI_Status* status);

}  // namespace stridio::testing
