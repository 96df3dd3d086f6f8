// What past calls on a file took over what was predicted for them, by method and strategy: a factor on the next predictions.
#pragma once

#include <array>

namespace stridio {

enum class Method {
  kNothing,  // an empty request
  kDirect,   // one request: the bytes lie together in the file
  kList,     // every range of the file is a request, batched; any order, no byte outside the request
  kMapped,   // windows of the file as memory, where the bytes are moved in place
  kSieve,    // clusters of ranges, with the small holes in them; a write reads those first (ROMIO paper, section 3)
};

enum class Strategy {
  kNothing,
  kIndependent,  // each rank by its own best method
  kTwoPhase,     // aggregators move whole windows of the file, ranks exchange with them (ROMIO paper, section 4)
};

// Of one direction. A value: whoever keeps it guards it.
class Correction {
 public:
  // `predicted` as the model says, without correction. Calls too short to be timed well teach nothing.
  void learn(Method method, double predicted, double measured);
  void learn_two_phase(double predicted, double measured);
  // 1/4 to 4. A method that was never tried is taken to err as the tried ones do on the average: else whatever is not known
  // to be slow would look fast on a machine that is slower than its profile, and be tried for no other reason.
  double of(Method method) const;
  double of_two_phase() const;
  // Whether calls took so long or so short, again and again, that the profile must be of another storage.
  bool contradicts() const;

 private:
  static constexpr std::size_t kTwoPhaseIndex = 7;
  void learn_at(std::size_t index, double predicted, double measured);
  double at(std::size_t index) const;

  std::array<double, kTwoPhaseIndex + 1> log_ratio_{};
  std::array<bool, kTwoPhaseIndex + 1> tried_{};
};

}  // namespace stridio
