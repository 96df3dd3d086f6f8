#include "mpiio/contents.h"

#include <string>

namespace stridio::mpiio {
namespace {

// Combiners that not every header of a family names.
#if defined(OPEN_MPI)
constexpr int kHvectorInteger = MPI_COMBINER_HVECTOR - 1;
constexpr int kHindexedInteger = MPI_COMBINER_HINDEXED - 1;
constexpr int kStructInteger = MPI_COMBINER_STRUCT - 1;
constexpr int kValueIndex = -1;
// MPI-4's large-count interface, for the day that this family has it.
extern "C" {
int PMPI_Type_get_envelope_c(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
int PMPI_Type_get_contents_c(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int*, MPI_Aint*, MPI_Count*,
                             MPI_Datatype*);
}
#elif defined(MPI_ABI)
constexpr int kHvectorInteger = -1;
constexpr int kHindexedInteger = -2;
constexpr int kStructInteger = -3;
constexpr int kValueIndex = MPI_COMBINER_VALUE_INDEX;
#else
constexpr int kHvectorInteger = MPI_COMBINER_HVECTOR_INTEGER;
constexpr int kHindexedInteger = MPI_COMBINER_HINDEXED_INTEGER;
constexpr int kStructInteger = MPI_COMBINER_STRUCT_INTEGER;
constexpr int kValueIndex = MPI_COMBINER_HINDEXED_BLOCK + 1;
#endif

Result<Combiner> meaning_of(int combiner) {
  switch (combiner) {
    case MPI_COMBINER_NAMED: return Combiner::kNamed;
    case MPI_COMBINER_F90_REAL: return Combiner::kF90Real;
    case MPI_COMBINER_F90_COMPLEX: return Combiner::kF90Complex;
    case MPI_COMBINER_F90_INTEGER: return Combiner::kF90Integer;
    case MPI_COMBINER_DUP: return Combiner::kDup;
    case MPI_COMBINER_CONTIGUOUS: return Combiner::kContiguous;
    case MPI_COMBINER_VECTOR: return Combiner::kVector;
    case kHvectorInteger:
    case MPI_COMBINER_HVECTOR: return Combiner::kHvector;
    case MPI_COMBINER_INDEXED: return Combiner::kIndexed;
    case kHindexedInteger:
    case MPI_COMBINER_HINDEXED: return Combiner::kHindexed;
    case MPI_COMBINER_INDEXED_BLOCK: return Combiner::kIndexedBlock;
    case MPI_COMBINER_HINDEXED_BLOCK: return Combiner::kHindexedBlock;
    case kStructInteger:
    case MPI_COMBINER_STRUCT: return Combiner::kStruct;
    case MPI_COMBINER_SUBARRAY: return Combiner::kSubarray;
    case MPI_COMBINER_DARRAY: return Combiner::kDarray;
    case MPI_COMBINER_RESIZED: return Combiner::kResized;
    case kValueIndex: return Combiner::kValueIndex;
    default:
      return fail(Code::kDatatype, "the datatype's combiner " + std::to_string(combiner) + " is not known to Stridio");
  }
}

struct Envelope {
  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count counts = 0;
  MPI_Count types = 0;
  int combiner = 0;
};

bool has_large_counts() { return PMPI_Type_get_envelope_c != nullptr && PMPI_Type_get_contents_c != nullptr; }

int get_envelope(MPI_Datatype datatype, Envelope& envelope) {
  if (has_large_counts())
    return PMPI_Type_get_envelope_c(datatype, &envelope.integers, &envelope.addresses, &envelope.counts,
                                    &envelope.types, &envelope.combiner);
  int integers = 0;
  int addresses = 0;
  int types = 0;
  const int code = PMPI_Type_get_envelope(datatype, &integers, &addresses, &types, &envelope.combiner);
  envelope.integers = integers;
  envelope.addresses = addresses;
  envelope.types = types;
  return code;
}

struct Arrays {
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
};

int get_contents(MPI_Datatype datatype, const Envelope& envelope, Arrays& arrays, std::vector<MPI_Datatype>& types) {
  arrays.integers.resize(static_cast<std::size_t>(envelope.integers));
  arrays.addresses.resize(static_cast<std::size_t>(envelope.addresses));
  arrays.counts.resize(static_cast<std::size_t>(envelope.counts));
  types.resize(static_cast<std::size_t>(envelope.types));
  if (has_large_counts())
    return PMPI_Type_get_contents_c(datatype, envelope.integers, envelope.addresses, envelope.counts, envelope.types,
                                    arrays.integers.data(), arrays.addresses.data(), arrays.counts.data(),
                                    types.data());
  return PMPI_Type_get_contents(datatype, static_cast<int>(envelope.integers), static_cast<int>(envelope.addresses),
                                static_cast<int>(envelope.types), arrays.integers.data(), arrays.addresses.data(),
                                types.data());
}

// Where a large-count constructor's counts stand among the integers of the small one.
std::size_t place_of_counts(Combiner combiner) {
  if (combiner == Combiner::kSubarray) return 1;  // after ndims
  if (combiner == Combiner::kDarray) return 3;    // after size, rank, ndims
  return 0;
}

std::vector<std::int64_t> merge(const Arrays& arrays, Combiner combiner) {
  std::vector<std::int64_t> numbers(arrays.integers.begin(), arrays.integers.end());
  const auto place = std::min(place_of_counts(combiner), numbers.size());
  numbers.insert(numbers.begin() + static_cast<std::ptrdiff_t>(place), arrays.counts.begin(), arrays.counts.end());
  numbers.insert(numbers.end(), arrays.addresses.begin(), arrays.addresses.end());
  return numbers;
}

void free_unless_predefined(MPI_Datatype& datatype) {
  Envelope envelope;
  if (get_envelope(datatype, envelope) != MPI_SUCCESS) return;
  const auto combiner = meaning_of(envelope.combiner);
  if (!combiner || !is_predefined(*combiner)) PMPI_Type_free(&datatype);
}

}  // namespace

Result<Contents> Contents::of(MPI_Datatype datatype) {
  Envelope envelope;
  Contents contents;
  if (get_envelope(datatype, envelope) != MPI_SUCCESS)
    return fail(Code::kDatatype, "the host MPI does not know this datatype");
  ASSIGN_OR_RETURN(contents.combiner, meaning_of(envelope.combiner));
  if (contents.combiner == Combiner::kNamed) return contents;
  Arrays arrays;
  if (get_contents(datatype, envelope, arrays, contents.types) != MPI_SUCCESS) {
    contents.types.clear();
    return fail(Code::kDatatype, "the host MPI does not tell how this datatype was made");
  }
  contents.numbers = merge(arrays, contents.combiner);
  return contents;
}

Contents::~Contents() {
  for (MPI_Datatype& type : types) free_unless_predefined(type);
}

}  // namespace stridio::mpiio
